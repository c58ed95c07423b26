#include <cmath>

#include <cotangent/ops/reduce/cuda_forward_internal.cuh>

// norm on CUDA.

namespace ct::reduction {

template <Kind kind>
void forward_cuda(const Forward& f) {
  const double number = f.attrs<Attrs>().number;
  visit_floating(f.op.name, f.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = fold_t<T>;
    if (std::isinf(number)) {
      run_forward<T>(f, ExtremumFold<C>{{Compare::absolute, number < 0}}, Order::any, &f.out(), nullptr);
    } else {
      run_forward<T>(f, NormFold<C>{{static_cast<C>(number)}}, Order::any, &f.out(), nullptr);
    }
  });
}

}  // namespace ct::reduction

CT_KERNELS(cuda, reduce_norm, CT_FOLD(norm))
