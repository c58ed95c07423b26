#include <cotangent/ops/reduce/cuda_forward_internal.cuh>

// amax, amin, any and all on CUDA.

namespace ct::reduction {

template <Kind kind>
void forward_cuda(const Forward& f) {
  constexpr Compare compare = kind == Kind::any || kind == Kind::all ? Compare::truth : Compare::value;
  visit_all(f.op.name, f.in(0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_forward<T>(f, ExtremumFold<fold_t<T>>{{compare, finds_smallest(kind)}}, Order::any, &f.out(),
                   nullptr);
  });
}

}  // namespace ct::reduction

CT_KERNELS(cuda, reduce_extremum, CT_FOLD(amax), CT_FOLD(amin))
CT_KERNELS(cuda, reduce_truth, CT_PREDICATE(any), CT_PREDICATE(all))
