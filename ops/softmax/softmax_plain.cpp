#include <cotangent/core/op_def.h>
#include <cotangent/ops/softmax/softmax_internal.h>
#include <cotangent/ops/softmax/softmax_plain.h>

// The plain kernels: every row of a call by softmax_plain.h.

namespace ct::plain::softmax_calls {
namespace {

Rows rows(const OpDef& op, const Shape& shape, const softmax_kernels::Attrs& attrs) {
  return {shape, wrap_axis(op.name, attrs.axis, shape.size())};
}

template <void row_forward(const Row&, MutableRow)>
void forward(const Forward& f) {
  const Rows rows = softmax_calls::rows(f.op, f.out().shape(), f.attrs<softmax_kernels::Attrs>());
  rows.each([&](std::int64_t r) { row_forward(rows.of(f.in(0), r), rows.in(f.out(), r)); });
}

template <void row_backward(const Row&, const Row&, MutableRow)>
void backward(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dx = b.grad_in(0);
  const Rows rows = softmax_calls::rows(b.op, dx.shape(), b.attrs<softmax_kernels::Attrs>());
  rows.each([&](std::int64_t r) { row_backward(rows.of(b.grad(), r), rows.of(b.out(), r), rows.in(dx, r)); });
}

}  // namespace
}  // namespace ct::plain::softmax_calls

CT_KERNELS(plain, softmax,
           {"softmax", plain::softmax_calls::forward<plain::softmax>,
            plain::softmax_calls::backward<plain::softmax_gradient>},
           {"log_softmax", plain::softmax_calls::forward<plain::log_softmax>,
            plain::softmax_calls::backward<plain::log_softmax_gradient>})
