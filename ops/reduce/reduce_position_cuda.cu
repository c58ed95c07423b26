#include <cotangent/ops/reduce/cuda_forward_internal.cuh>

// max and min along an axis, argmax and argmin on CUDA.

namespace ct::fold {

template <Kind kind>
void forward_cuda(const Forward& f) {
  constexpr bool values = kind == Kind::max || kind == Kind::min;
  visit_elements(f.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_forward<T>(f, PositionFold<fold_t<T>>{{Compare::value, finds_smallest(kind)}}, Order::logical,
                   values ? &f.out(0) : nullptr, &f.out(values ? 1 : 0));
  });
}

}  // namespace ct::fold

CT_KERNELS(cuda, reduce_position, CT_FOLD(max), CT_FOLD(min))
CT_KERNELS(cuda, reduce_argument, CT_PREDICATE(argmax), CT_PREDICATE(argmin))
