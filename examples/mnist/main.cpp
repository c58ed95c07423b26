#include <cstdio>
#include <exception>
#include <new>

#include "examples/common/standard_streams.h"
#include "examples/mnist/options.h"
#include "examples/mnist/training.h"

// Trains a perceptron on images. Exit codes: 0 done, 1 an error, 2 a wrong command line, 130 interrupted
// (saved).

namespace {

void out_of_memory(const char* what, const Options& options) {
  std::fprintf(stderr, "mnist: %s\nmnist: try a smaller --batch (now %lld) or smaller --hidden layers\n",
               what, static_cast<long long>(options.batch));
}

int run(int argc, char** argv) {
  Options options;
  int exit_code = 0;
  if (!parse_options(argc, argv, options, exit_code)) return exit_code;
  try {
    return train(options);
  } catch (const ct::OutOfMemoryError& e) {
    out_of_memory(e.what(), options);
  } catch (const std::bad_alloc&) {
    out_of_memory("[mnist] out of memory; free some", options);
  } catch (const std::exception& e) { std::fprintf(stderr, "mnist: %s\n", e.what()); }
  return 1;
}

}  // namespace

int main(int argc, char** argv) { return with_standard_streams("mnist", run, argc, argv); }
