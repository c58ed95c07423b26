#pragma once

#include <cotangent/ops/reduce/reduce_kernels.h>
#include <cotangent/ops/reduce/cuda_engine_internal.cuh>
#include <cotangent/ops/reduce/cuda_folds_internal.cuh>

namespace ct::reduction {

/// Runs `fold` over x's reduced axes into the outputs of a forward call; either may be null.
template <class T, class F>
void run_forward(const Forward& f, const F& fold, Order order, const Tensor* values, const Tensor* second) {
  Tensor x = f.in(0);
  AxisMask mask = axis_mask(f.op.name, f.attrs<Attrs>().axes, x.dim());
  const Plan plan = plan_or_pack(x, mask, order, Repeats::keep);
  Out out;
  if (values) {
    out.values = values->raw_data();
    out.dtype = values->dtype();
  }
  if (second) out.second = second->raw_data();
  run_fold<T>(f.op.name, fold, plan, x, out);
}

/// Instantiates the kernels that dispatch calls.
#define CT_INSTANTIATE_FORWARD(kind) template void forward_cuda<Kind::kind>(const Forward&);
#define CT_INSTANTIATE_BOTH(kind)                         \
  template void forward_cuda<Kind::kind>(const Forward&); \
  template void backward_cuda<Kind::kind>(const Backward&);

template <Kind kind>
void backward_cuda(const Backward& b) {
  backward_by(kind, b, {sum_cuda, side_cuda, gradient_cuda});
}

inline constexpr bool finds_smallest(Kind kind) {
  return kind == Kind::amin || kind == Kind::all || kind == Kind::min || kind == Kind::argmin;
}

}  // namespace ct::reduction
