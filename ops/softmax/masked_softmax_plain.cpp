#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/engine/rows/additive_mask_cpu.h>
#include <cotangent/ops/softmax/masked_softmax_internal.h>
#include <cotangent/ops/softmax/masked_softmax_plain.h>

// The plain kernels: every row of a call by masked_softmax_plain.h.

namespace ct::softmax_impl::masked {
namespace {

using namespace plain;

Rows last_axis(const Shape& shape) { return {shape, shape.size() - 1}; }

void forward_plain(const Forward& f) {
  const Tensor &x = f.in(0), &mask = f.in(1);
  const Rows rows = last_axis(x.shape());
  const MaskRows places(mask, x.shape());
  rows.each([&](std::int64_t r) {
    const Row row = rows.of(x, r);
    Array m(row.size());  // in any dtype and strides, of truth values as 0 and -inf
    load_additive(mask.raw_data(), mask.dtype(), places.offset(r), places.step, m.size(), m.data());
    masked_softmax(row, {m.data(), m.size(), Eigen::InnerStride<>(1)}, f.attrs<Attrs>().scale,
                   rows.in(f.out(), r));
  });
}

void backward_plain(const Backward& b) {
  const Tensor& y = b.out();
  const Rows rows = last_axis(y.shape());
  const Tensor ds = whole_grad(b, 1, y.shape(), f64);
  const Tensor dx = b.needs(0) ? b.grad_in(0) : Tensor::allocate(y.shape(), f64, cpu);
  rows.each([&](std::int64_t r) {
    masked_softmax_gradient(rows.of(b.grad(), r), rows.of(y, r), b.attrs<Attrs>().scale, rows.in(dx, r),
                            rows.in(ds, r));
  });
  if (b.needs(1)) set_summed_grad(b, 1, ds);
}

}  // namespace
}  // namespace ct::softmax_impl::masked

CT_KERNELS(plain, masked_softmax,
           {"masked_softmax", softmax_impl::masked::forward_plain, softmax_impl::masked::backward_plain})
