#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

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

void out_of_memory(const char* what, const Options& options) {
  std::fprintf(stderr, "mnist: %s\nmnist: try a smaller --batch (now %lld) or smaller --hidden layers\n",
               what, static_cast<long long>(options.batch));
}

}  // namespace

bool interrupted() { return g_interrupts > 0; }

int main(int argc, char** argv) {
  Options options;
  int exit_code = 0;
  if (!parse_options(argc, argv, options, exit_code)) return exit_code;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the limit is a failed write, which has a message
  try {
    return train(options);
  } catch (const ct::OutOfMemoryError& e) {
    out_of_memory(e.what(), options);
  } catch (const std::bad_alloc&) {
    out_of_memory("[mnist] out of memory; free some", options);
  } catch (const std::exception& e) { std::fprintf(stderr, "mnist: %s\n", e.what()); }
  return 1;
}
