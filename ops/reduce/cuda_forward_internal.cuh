#pragma once

#include <cotangent/ops/reduce/kinds_internal.h>
#include <cotangent/ops/engine/fold/fold_cuda.cuh>
#include <cotangent/ops/engine/fold/folds_cuda.cuh>

namespace ct::reduce {

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

template <Kind kind>
void backward_cuda(const Backward& b) {
  if constexpr (kind == Kind::sum || kind == Kind::mean) {
    spread_sum(kind, b, sum_cuda);
  } else {
    backward_by(kind, b, {sum_cuda, side_cuda, gradient_cuda});
  }
}

inline constexpr bool finds_smallest(Kind kind) {
  return kind == Kind::amin || kind == Kind::all || kind == Kind::min || kind == Kind::argmin;
}

/// Entries of CT_KERNELS, by the forward kernel of the kind, which fold has, and the kind's name.
#define CT_FOLD(forward, kind) \
  { #kind, reduce::forward < reduce::Kind::kind>, reduce::backward_cuda < reduce::Kind::kind> }
#define CT_PREDICATE(forward, kind) forward_only(#kind, reduce::forward<reduce::Kind::kind>)

}  // namespace ct::reduce
