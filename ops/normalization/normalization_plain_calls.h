#pragma once

#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/normalization/normalization_internal.h>
#include <cotangent/ops/normalization/normalization_plain.h>

// A call of layer_norm or rms_norm, row by row with normalization_plain.h. Backward takes the rows one after
// the other, so that the sums over them have one order.

namespace ct::plain {

using normalization::BackwardCall;
using normalization::ForwardCall;
using normalization::Layout;

inline Rows rows_of(const Layout& layout) { return {{layout.rows, layout.columns}, 1}; }

/// `t`, or a tensor of the shape that holds `value` instead.
inline Tensor either(const Tensor& t, const Shape& shape, double value) {
  if (t.defined()) return t;
  const Tensor constant = Tensor::allocate(shape, f64, cpu);
  fill_kernel(constant, value);
  return constant;
}

template <bool kCentered, bool kAdd>
void forward(const Forward& f) {
  const ForwardCall call(f, {kCentered, kAdd});
  if (!call.work) return;
  const Rows rows = rows_of(call.layout);
  const Shape row{call.layout.columns};
  const Tensor w = either(call.weight, row, 1), b = either(call.bias, row, 0);
  rows.each([&](std::int64_t r) {
    if (kAdd) rows.line_in(call.sum, r) = rows.line(call.x, r) + rows.line(call.residual, r);
    const Line x = rows.line(kAdd ? call.sum : call.x, r);
    double& rstd = call.rstd.data<double>()[r];
    if constexpr (kCentered)
      layer_norm(x, rows.line(w, 0), rows.line(b, 0), call.eps, call.mean.data<double>()[r], rstd,
                 rows.line_in(call.y, r));
    else
      rms_norm(x, rows.line(w, 0), call.eps, rstd, rows.line_in(call.y, r));
  });
}

template <bool kCentered, bool kAdd>
void backward(const Backward& b) {
  const BackwardCall call(b, {kCentered, kAdd});
  if (!call.work) return;
  const Rows rows = rows_of(call.layout);
  const Shape row{call.layout.columns};
  const Tensor w = either(call.weight, row, 1), dx = either(call.dx, call.x.shape(), 0),
               dw = either(call.dweight, row, 0), db = either(call.dbias, row, 0);
  if (!call.accumulate_weight) rows.line_in(dw, 0) = 0;
  if (!call.accumulate_bias) rows.line_in(db, 0) = 0;
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    const Line g = rows.line(call.g, r), x = rows.line(call.x, r);
    if (call.extra.defined())
      rows.line_in(dx, r) = rows.line(call.extra, r);
    else
      rows.line_in(dx, r) = 0;
    const double rstd = call.rstd.data<double>()[r];
    if constexpr (kCentered)
      layer_norm_gradient(g, x, rows.line(w, 0), call.mean.data<double>()[r], x.size() == 1 ? 0 : rstd,
                          rows.line_in(dx, r), rows.line_in(dw, 0),
                          rows.line_in(db, 0));  // one element has no slope
    else
      rms_norm_gradient(g, x, rows.line(w, 0), rstd, rows.line_in(dx, r), rows.line_in(dw, 0));
  }
  call.finish(b);
}

}  // namespace ct::plain
