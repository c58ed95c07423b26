// Program that every consumer builds: one of its own, in C++ alone, that includes the umbrella header and
// links one target. It knows nothing of how the library was found.
#include <iostream>
#include <string_view>

#include <cotangent/cotangent.h>

int main() {
  if (std::string_view(ct::version()) != COTANGENT_VERSION_STRING) return 1;
  std::cout << "Cotangent " << ct::version() << ", commit " << ct::build_info().commit << '\n';
  std::cout << "built with CUDA: " << ct::built_with_cuda() << ", GPUs: " << ct::cuda_device_count() << '\n';
  // A block that the library took from the pool is given back in code that is inline here.
  ct::pool_deallocate(ct::detail::pool_refill(ct::detail::pool_class(64), 64), 64);
  // Goes through the registry's table, the kernels and the tape.
  ct::Tensor w = ct::ones({3, 2});
  w.set_requires_grad(true);
  const ct::Tensor loss = ct::sum(ct::square(ct::matmul(ct::ones({4, 3}), w)));
  loss.backward();
  std::cout << "loss " << loss.item<float>() << ", ops " << ct::registry().size() << '\n';
  const bool right = loss.item<float>() == 72.f && ct::sum(w.grad()).item<float>() == 144.f;
  try {
    (void)ct::matmul(w, w);
  } catch (const ct::ShapeError& error) {  // typed errors cross the library's boundary
    std::cout << error.what() << '\n';
    return right ? 0 : 1;
  }
  return 1;
}
