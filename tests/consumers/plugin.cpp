#include <cotangent/cotangent.h>

// Shared object with the library in it, loaded while a program runs, as a plugin or a Python module is.

// More thread-local memory than a running program has left for what it loads, as the CUDA runtime has. It is found room
// for elsewhere, unless something in the object, such as the library's, insists on that place for all of it.
thread_local volatile char more[1 << 16];

extern "C" [[gnu::visibility("default")]] double plugin_run() {
  more[0] = 1;
  const ct::Tensor x = ct::ones({2, 3, 8}).set_requires_grad();
  const ct::Tensor y = ct::rotary_embedding(x, ct::arange(3));
  (y * y).sum().backward();
  return x.grad().sum().item();  // turning changes no length: 2 x, added up
}
