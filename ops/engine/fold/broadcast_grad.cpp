#include <cotangent/ops/engine/fold/broadcast_grad.h>

#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct {

Tensor whole_grad(const Backward& b, int i, const Shape& shape, DType dtype) {
  const TensorMeta& x = b.in_meta(i);
  const bool direct = b.needs(i) && x.shape == shape && b.grad_dtype(i) == dtype;
  return direct ? b.grad_in(i) : Tensor::allocate(shape, dtype, x.device);
}

void set_summed_grad(const Backward& b, int i, const Tensor& whole) {
  const TensorMeta& x = b.in_meta(i);
  if (whole.dtype() != x.dtype) return copy_kernel(b.grad_in(i), sum_to(whole, x.shape));
  if (whole.shape() == x.shape) return b.set_grad_in(i, whole);
  sum_to_into(b.grad_in(i), whole, false);
}

}  // namespace ct
