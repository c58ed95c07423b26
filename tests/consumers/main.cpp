// What every consumer builds: a program of its own, in C++ alone, that includes the umbrella header and links
// one target. It knows nothing of how the library was found.
#include <iostream>

#include <cotangent/cotangent.h>

int main() {
  const ct::Shape shape{2, 3};
  std::cout << "built with CUDA: " << ct::built_with_cuda() << ", GPUs: " << ct::cuda_device_count() << '\n';
  try {
    (void)ct::parse_device("abacus");
  } catch (const ct::DeviceError& error) {  // typed errors cross the library's boundary
    std::cout << error.what() << '\n';
    return ct::numel(shape) == 6 ? 0 : 1;
  }
  return 1;
}
