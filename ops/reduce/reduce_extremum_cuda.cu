#include <cmath>

#include <cotangent/ops/reduce/cuda_forward_internal.cuh>

// amax, amin, any, all, max and min along an axis, argmax, argmin, and norm, which may be an extremum too, on CUDA.

namespace ct::reduce {

template <Kind kind>
void extrema_cuda(const Forward& f) {
  const double number = f.attrs<Attrs>().number;
  visit_elements(f.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = fold_t<T>;
    Ordering<C> order{Compare::value, finds_smallest(kind)};
    if constexpr (kind == Kind::any || kind == Kind::all) order.compare = Compare::truth;
    if constexpr (kind == Kind::norm) {
      order = {Compare::absolute, number < 0};
      if constexpr (!std::is_integral_v<T>) {
        if (!std::isinf(number))
          return run_forward<T>(f, NormFold<C>{{static_cast<C>(number)}}, Order::any, &f.out(), nullptr);
      }
    }
    if constexpr (kind == Kind::max || kind == Kind::min) {
      run_forward<T>(f, PositionFold<C>{order}, Order::logical, &f.out(0), &f.out(1));
    } else if constexpr (kind == Kind::argmax || kind == Kind::argmin) {
      run_forward<T>(f, PositionFold<C>{order}, Order::logical, nullptr, &f.out());
    } else {
      run_forward<T>(f, ExtremumFold<C>{order}, Order::any, &f.out(), nullptr);
    }
  });
}

}  // namespace ct::reduce

CT_KERNELS(cuda, reduce_extremum, CT_FOLD(extrema_cuda, amax), CT_FOLD(extrema_cuda, amin))
CT_KERNELS(cuda, reduce_truth, CT_PREDICATE(extrema_cuda, any), CT_PREDICATE(extrema_cuda, all))
CT_KERNELS(cuda, reduce_norm, CT_FOLD(extrema_cuda, norm))
CT_KERNELS(cuda, reduce_position, CT_FOLD(extrema_cuda, max), CT_FOLD(extrema_cuda, min))
CT_KERNELS(cuda, reduce_argument, CT_PREDICATE(extrema_cuda, argmax), CT_PREDICATE(extrema_cuda, argmin))
