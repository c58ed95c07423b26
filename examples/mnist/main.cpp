#include <cstdio>
#include <string>

#include "examples/common/standard_streams.h"
#include "examples/mnist/options.h"
#include "examples/mnist/training.h"
#include "examples/mnist/use.h"

// Trains a network on images, and uses it. Exit codes: 0 done, 1 an error, 2 a wrong command line, 130 interrupted
// (saved).

namespace {

int run(const CommandLine& line) {
  switch (line.command) {
    case CommandLine::Command::train: return train(line.train);
    case CommandLine::Command::eval: return eval(line.use);
    case CommandLine::Command::predict: return predict(line.use);
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
  const auto advice = [&]() -> std::string {
    if (line.command != CommandLine::Command::train) return {};
    return "try a smaller --batch (now " + std::to_string(line.train.batch) + ") or smaller --hidden layers";
  };
  return with_standard_streams("mnist", run_program, advice);
}
