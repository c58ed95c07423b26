#include <cstdio>
#include <exception>
#include <new>

#include "examples/common/standard_streams.h"
#include "examples/gpt/commands.h"
#include "examples/gpt/options.h"
#include "examples/gpt/training.h"

#include <cotangent/core/error.h>

// Trains a language model and writes text with it. Exit codes: 0 done, 1 an error, 2 a wrong command line,
// 130 interrupted (saved).

namespace {

void out_of_memory(const char* what, const CommandLine& line) {
  std::fprintf(stderr, "gpt: %s\n", what);
  if (line.command != CommandLine::Command::train) return;
  const Options& o = line.train;
  std::fprintf(
      stderr,
      "gpt: try a smaller --batch (now %lld) with a larger --accumulate (now %lld)%s, a shorter --block "
      "(now %lld)%s\n",
      static_cast<long long>(o.batch), static_cast<long long>(o.accumulate),
      o.recompute ? "" : ", --recompute", static_cast<long long>(o.block),
      o.dtype == "f32" ? ", or --dtype bf16" : "");
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

int run_program(int argc, char** argv) {
  CommandLine line;
  int exit_code = 0;
  try {
    if (!parse_command_line(argc, argv, line, exit_code)) return exit_code;
    return run(line);
  } catch (const ct::OutOfMemoryError& e) { out_of_memory(e.what(), line); } catch (const std::bad_alloc&) {
    out_of_memory("[gpt] out of memory; free some", line);
  } catch (const std::exception& e) { std::fprintf(stderr, "gpt: %s\n", e.what()); }
  return 1;
}

}  // namespace

int main(int argc, char** argv) { return with_standard_streams("gpt", run_program, argc, argv); }
