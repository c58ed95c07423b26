#include <csignal>
#include <cstdio>
#include <exception>

#include "examples/mnist/options.h"
#include "examples/mnist/training.h"

// Trains a perceptron on images. Exit codes: 0 done, 1 an error, 2 a wrong command line, 130 interrupted
// (saved).

namespace {

volatile std::sig_atomic_t g_interrupts = 0;

// The first Ctrl-C asks the training loop to save and end; the second ends the program at once.
void on_interrupt(int) {
  g_interrupts = g_interrupts + 1;
  if (g_interrupts > 1) std::_Exit(130);
}

}  // namespace

bool interrupted() { return g_interrupts > 0; }

int main(int argc, char** argv) {
  Options options;
  int exit_code = 0;
  if (!parse_options(argc, argv, options, exit_code)) return exit_code;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  try {
    return train(options);
  } catch (const ct::OutOfMemoryError& e) {
    std::fprintf(stderr, "mnist: %s\nmnist: try a smaller --batch (now %lld) or smaller --hidden layers\n",
                 e.what(), static_cast<long long>(options.batch));
  } catch (const std::exception& e) { std::fprintf(stderr, "mnist: %s\n", e.what()); }
  return 1;
}
