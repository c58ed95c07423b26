#include <cotangent/ops/engine/fold/sum_to.h>

#include <cotangent/core/base/error.h>
#include <cotangent/ops/engine/fold/sum.h>

namespace ct {

Tensor sum_to(const Tensor& grad, const Shape& shape) {
  if (grad.shape() == shape) return grad;
  Tensor out = Tensor::allocate(shape, grad.dtype(), grad.device());
  sum_to_into(out, grad, false);
  return out;
}

void sum_to_into(Tensor& out, const Tensor& grad, bool accumulate) {
  const Shape& from = grad.shape();
  const Shape& to = out.shape();
  const int lead = from.size() - to.size();
  const bool fits = out.dtype() == grad.dtype() || (out.dtype() == f32 && is_low_precision(grad.dtype()));
  CT_CHECK(lead >= 0 && fits && out.is_contiguous(), ShapeError, "sum_to", "can't sum ", describe(grad),
           " into ", describe(out),
           "; the result must be contiguous, of the same dtype (or f32 for one of 16 bits), and broadcast to "
           "the input's shape");
  fold::AxisMask mask = (1u << lead) - 1;
  for (int i = lead; i < from.size(); ++i) {
    const std::int64_t size = to[i - lead];
    if (size == from[i]) continue;
    CT_CHECK(size == 1, ShapeError, "sum_to", "shape ", to, " does not broadcast to ", from,
             "; sizes must be equal or 1");
    mask |= 1u << i;
  }
  functions_of(kernel_tables::sums, grad.device()).sum(grad, mask, out, 1, accumulate);
}

}  // namespace ct
