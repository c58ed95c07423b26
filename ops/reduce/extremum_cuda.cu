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

CT_INSTANTIATE_BOTH(amax)
CT_INSTANTIATE_BOTH(amin)
CT_INSTANTIATE_FORWARD(any)
CT_INSTANTIATE_FORWARD(all)

}  // namespace ct::reduction
