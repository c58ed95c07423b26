#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/softmax/softmax_internal.h>
#include <cotangent/ops/softmax/softmax_plain.h>

// The plain kernels: every row of a call by softmax_plain.h.

namespace ct::softmax_impl {
namespace {

using namespace plain;

Rows rows_of(const OpDef& op, const Shape& shape, const Attrs& attrs) {
  return {shape, static_cast<int>(wrap_axis(op.name, attrs.axis, shape.size()))};
}

template <auto formula>
void forward_plain(const Forward& f) {
  rows_of(f.op, f.out().shape(), f.attrs<Attrs>()).each_block([&](const auto& of, const auto& in) {
    formula(of(f.in(0)), in(f.out()));
  });
}

template <auto formula>
void backward_plain(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dx = b.grad_in(0);
  rows_of(b.op, dx.shape(), b.attrs<Attrs>()).each_block([&](const auto& of, const auto& in) {
    formula(of(b.grad()), of(b.out()), in(dx));
  });
}

}  // namespace
}  // namespace ct::softmax_impl

#define CT_FORMULA_OF(name) [](const auto&... rows) { ct::plain::name(rows...); }
CT_KERNELS(plain, softmax,
           {"softmax", softmax_impl::forward_plain<CT_FORMULA_OF(softmax)>,
            softmax_impl::backward_plain<CT_FORMULA_OF(softmax_gradient)>},
           {"log_softmax", softmax_impl::forward_plain<CT_FORMULA_OF(log_softmax)>,
            softmax_impl::backward_plain<CT_FORMULA_OF(log_softmax_gradient)>})
#undef CT_FORMULA_OF
