#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/engine/map/formulas.h>
#include <cotangent/ops/engine/map/map.h>

// where(condition, a, b), and where(condition, a, number) with the number in p; q is the value of the condition that
// selects the number. Parameters come as map::Parameters.

namespace ct::elementwise::where_impl {

// Formulas (see ops/engine/map/map_cpu.h). Input 0 is the condition, which is read as 0 or 1.
struct Masked : map::Formula {
  static constexpr unsigned kMasks = 1;
};
CT_MAP_FORMULA(Select, Masked, 3, 1, (X c, X a, X b, X, X), return where(c != 0, a, b))
CT_MAP_FORMULA(SelectScalar, Masked, 2, 1, (X c, X a, X p, X q), return where(c == q, p, a))
// The cotangent where the condition is not q, else 0.
CT_MAP_FORMULA(PassUnless, Masked, 2, 1, (X c, X g, X, X q), return where(c == q, 0, g))

/// The gradient of input i: the cotangent, cleared where the condition is `q`, summed over broadcast axes.
/// `run(out, inputs, parameters)` runs PassUnless on the op's device.
template <class Run>
void masked_gradient(const Backward& b, int i, const Scalar& q, Run&& run) {
  if (!b.needs(i)) return;
  const Tensor& g = b.grad();
  const TensorMeta& meta = b.in_meta(i);
  const Tensor* inputs[] = {&b.in(0), &g};
  const map::Parameters parameters{0, q};
  if (g.shape() == meta.shape) return run(b.grad_in(i), inputs, parameters);
  Tensor whole = Tensor::allocate(g.shape(), meta.dtype, meta.device);
  run(whole, inputs, parameters);
  set_summed_grad(b, i, whole);
}

}  // namespace ct::elementwise::where_impl
