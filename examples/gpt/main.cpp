#include <string>

#include "examples/common/standard_streams.h"
#include "examples/gpt/commands.h"
#include "examples/gpt/options.h"
#include "examples/gpt/training.h"

#include <cotangent/core/base/error.h>

// Trains a language model and writes text with it. Exit codes: 0 done, 1 an error, 2 a wrong command line,
// 130 interrupted (saved).

namespace {

std::string advice(const CommandLine& line) {
  if (line.command != CommandLine::Command::train) return {};
  const Options& o = line.train;
  return ct::detail::cat("try a smaller --batch (now ", o.batch, ") with a larger --accumulate (now ",
                         o.accumulate, ")", o.recompute ? "" : ", --recompute", ", a shorter --block (now ",
                         o.block, ")", o.dtype == "f32" ? ", or --dtype bf16" : "");
}

int run(const CommandLine& line) {
  using Command = CommandLine::Command;
  switch (line.command) {
    case Command::train: return train(line.train);
    case Command::generate: return generate(line.generate);
    case Command::logits: return logits(line.logits);
    case Command::export_model: return export_model(line.export_model);
    case Command::tokenize: return tokenize(line.tokenize);
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  const auto run_program = [&] {
    int exit_code = 0;
    return parse_command_line(argc, argv, line, exit_code) ? run(line) : exit_code;
  };
  return with_standard_streams("gpt", run_program, [&] { return advice(line); });
}
