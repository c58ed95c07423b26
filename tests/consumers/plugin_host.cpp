#include <dlfcn.h>

#include <cmath>
#include <cstdio>

// Loads the plugin named by the argument, as a program that knows nothing of the library, and calls it.

int main(int argc, char** argv) {
  void* const plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  void* const run = plugin ? dlsym(plugin, "plugin_run") : nullptr;
  if (!run) {
    std::fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: plugin_host PLUGIN");
    return 1;
  }
  const double got = reinterpret_cast<double (*)()>(run)();
  if (std::abs(got - 96) < 1e-3) return 0;
  std::fprintf(stderr, "plugin_run() gave %g instead of 96\n", got);
  return 1;
}
