#include <cstdio>
#include <string>

#include "examples/common/standard_streams.h"
#include "examples/mnist/options.h"
#include "examples/mnist/training.h"

// Trains a perceptron on images. Exit codes: 0 done, 1 an error, 2 a wrong command line, 130 interrupted
// (saved).
int main(int argc, char** argv) {
  Options options;
  const auto run = [&] {
    int exit_code = 0;
    return parse_options(argc, argv, options, exit_code) ? train(options) : exit_code;
  };
  const auto advice = [&] {
    return "try a smaller --batch (now " + std::to_string(options.batch) + ") or smaller --hidden layers";
  };
  return with_standard_streams("mnist", run, advice);
}
