#pragma once

#include <cotangent/ops/elementwise_internal.h>
#include <cotangent/ops/sum_to.h>
#include <cotangent/ops/where/where_kernels.h>

namespace ct::where_op {

/// The gradient of input i: the cotangent, cleared where the condition is `q`, summed over broadcast axes.
/// `run(out, inputs, parameters)` runs PassUnless on the op's device.
template <class Run>
void masked_gradient(const Backward& b, int i, const Scalar& q, Run&& run) {
  if (!b.needs(i)) return;
  const Tensor& g = b.grad();
  const TensorMeta& meta = b.in_meta(i);
  const Tensor* inputs[] = {&b.in(0), &g};
  const elementwise::Parameters parameters{0, q};
  if (g.shape() == meta.shape) return run(b.grad_in(i), inputs, parameters);
  Tensor whole = Tensor::allocate(g.shape(), meta.dtype, meta.device);
  run(whole, inputs, parameters);
  b.set_grad_in(i, sum_to(whole, meta.shape));
}

}  // namespace ct::where_op
