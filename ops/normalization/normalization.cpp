#include <cmath>

#include <cotangent/autograd/autocast_mode.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/normalization/normalization_internal.h>
#include <cotangent/ops/rules_internal.h>

namespace ct::normalization {

// ---- calls -----------------------------------------------------------------------------------------------

ForwardCall::ForwardCall(const Forward& f, Kind kind)
    : op(f.op.name), layout(f.out().shape(), f.attrs<Attrs>().axes), eps(f.attrs<Attrs>().eps) {
  x = f.in(0);
  if (kind.add) {
    const bool low = f.in(1).dtype() != x.dtype() && f.in(1).dtype() == f.out().dtype();
    (low ? low_residual : residual) = low ? f.in(1) : converted(f.in(1), x.dtype());
  }
  if (f.has(kind.weight())) weight = f.in(kind.weight());
  if (kind.centered && f.has(kind.bias())) bias = f.in(kind.bias());
  y = f.out();
  if (kind.add) sum = f.out(1);
  if (kind.centered) mean = f.out(kind.mean());
  rstd = f.out(kind.rstd());
  work = y.numel() > 0;
  for (Tensor* t : {&mean, &rstd})
    if (!work && t->defined() && t->numel() > 0) t->zero_();  // rows without elements
}

BackwardCall::BackwardCall(const Backward& b, Kind kind)
    : op(b.op.name), layout(b.in_meta(0).shape, b.attrs<Attrs>().axes) {
  const int w = kind.weight(), bias = kind.bias();
  const bool rows = b.needs(0) || (kind.add && b.needs(1));
  const bool want_weight = b.needs(w), want_bias = kind.centered && b.needs(bias);
  accumulate_weight = want_weight && b.accumulate(w);
  accumulate_bias = want_bias && b.accumulate(bias);
  if (want_weight) dweight = b.grad_in(w);
  if (want_bias) dbias = b.grad_in(bias);
  if (!b.grad().defined() || b.grad().numel() == 0) {  // nothing flowed into y, or there is nothing
    for (int i = 0; i <= kind.add; ++i) {
      if (!b.needs(i)) continue;
      if (kind.add && b.grad(1).defined())
        b.set_grad_in(i, b.grad(1).to(b.in_meta(i).dtype));
      else if (!b.accumulate(i))
        b.grad_in(i).zero_();
    }
    if (want_weight && !accumulate_weight) dweight.zero_();
    if (want_bias && !accumulate_bias) dbias.zero_();
    return;
  }
  if (!rows && !want_weight) {
    if (want_bias) sum_to_into(dbias, b.grad(), accumulate_bias);
    return;
  }
  work = true;
  g = b.grad();
  x = kind.add ? b.out(1) : b.in(0);
  if (kind.centered) mean = b.out(kind.mean());
  rstd = b.out(kind.rstd());
  if (!rows) return;
  if (!b.in_meta(w).shape.empty()) weight = b.in(w);
  if (!kind.add) {
    dx = b.grad_in(0);
    if (b.accumulate(0)) extra = dx;
    return;
  }
  // Both addends have the same gradient, each in its dtype.
  const DType dtype = b.in_meta(0).dtype, other = b.in_meta(1).dtype;
  const bool low = other != dtype && other == g.dtype();
  narrow_ = b.needs(1) && other != dtype && !low;
  if (b.needs(0)) dx = b.grad_in(0);
  if (b.needs(1)) {
    if (low)
      low_dx = b.grad_in(1);
    else if (other == dtype && dx.defined())
      b.set_grad_in(1, dx);
    else if (!dx.defined())
      dx = narrow_ ? Tensor::allocate(x.shape(), dtype, x.device()) : b.grad_in(1);
  }
  extra = b.grad(1);
}

void BackwardCall::finish(const Backward& b) const {
  if (narrow_) b.set_grad_in(1, dx.to(b.in_meta(1).dtype));
}

// ---- rules -----------------------------------------------------------------------------------------------

std::int64_t row_axes(const Tensor& weight, const Tensor& bias) {
  return weight.defined() ? weight.dim() : bias.defined() ? bias.dim() : 1;
}

Addends addends(const char* op, const Tensor& x, const Tensor& residual, NormUse use) {
  const auto full = [](const Tensor& t) { return t.defined() && t.dtype() == DType::f32; };
  const auto low = [](const Tensor& t) { return t.defined() && is_low_precision(t.dtype()); };
  const detail::AutocastMode& mode = detail::autocast_mode();
  if (!mode.enabled) {
    // The kernels could add 16 bits to f32, but outside of Autocast dtypes are the caller's affair.
    CT_CHECK(!full(x) || !low(residual), DTypeError, op, "inputs have different dtypes: ", describe(x),
             " and ", describe(residual), "; convert one of them with .to(dtype)");
    return {x, residual, {}};
  }
  if (!(full(x) || low(x)) || !(full(residual) || low(residual))) return {x, residual, {}};
  const bool swap = low(x) && full(residual) && x.shape() == residual.shape();
  return {swap ? residual : x, swap ? x : residual,
          use == NormUse::product ? std::optional(mode.dtype) : std::nullopt};
}

void infer(Infer& in, Kind kind) {
  const Attrs& attrs = in.attrs<Attrs>();
  const Tensor& x = in.in(0);
  CT_CHECK(x.dim() > 0, ShapeError, in.op.name, "x is ", describe(x), "; it needs an axis to normalize over");
  CT_CHECK(attrs.eps >= 0 && std::isfinite(attrs.eps), ValueError, in.op.name, "eps is ", attrs.eps,
           "; it must be at least 0 and finite");
  if (kind.add)
    CT_CHECK(in.in(1).shape() == x.shape(), ShapeError, in.op.name, "residual is ", describe(in.in(1)),
             ", x is ", describe(x), "; they must have the same shape");
  Shape row, statistics;
  const bool fits = attrs.axes >= 1 && attrs.axes <= x.dim();
  const int lead = fits ? x.dim() - static_cast<int>(attrs.axes) : -1;
  for (int i = 0; i < x.dim(); ++i) (i < lead ? statistics : row).push_back(x.shape()[i]);
  const auto check = [&](int i, const char* what) {
    if (i >= in.input_count() || !in.in(i).defined()) return;
    CT_CHECK(fits && in.in(i).shape() == row, ShapeError, in.op.name, what, " is ", describe(in.in(i)),
             ", x is ", describe(x), "; ", what, " must have the shape of x's last axis (or axes)");
  };
  check(kind.weight(), "weight");
  if (kind.centered) check(kind.bias(), "bias");
  CT_CHECK(fits, ShapeError, in.op.name, "axes is ", attrs.axes, ", x is ", describe(x),
           "; it must be a number of x's last axes, at least 1");
  const DType y = attrs.y_dtype(x.dtype());
  if (y != x.dtype())
    CT_CHECK(kind.add && x.dtype() == DType::f32 && is_low_precision(y), DTypeError, in.op.name, "x is ",
             describe(x), " and y is to be ", name(y),
             "; y has x's dtype, or 16 bits where a residual is added to an f32 x");
  if (kind.add && y != x.dtype())
    CT_CHECK(in.in(1).dtype() == x.dtype() || in.in(1).dtype() == y, DTypeError, in.op.name, "residual is ",
             describe(in.in(1)), ", x is ", describe(x), " and y is to be ", name(y),
             "; residual must have the dtype of one of them");
  in.output(x.shape(), y);
  if (kind.add) in.output(x.shape(), x.dtype());
  if (kind.centered) in.output(statistics, accumulate_type(x.dtype()));
  in.output(statistics, accumulate_type(x.dtype()));
}

// With n the normalized rows, r the inverse of their deviation, h = g w and means over a row:
// dx = r (h - mean(h) - n mean(h n)), without mean(h) where nothing is centered; dw = sum of g n, db of g. Squares are taken
// of rows times s, the r that forward found and here a constant, for they may be out of range: r = s / sqrt(mean(s^2 x^2)).
void rule(const Backward& b, Kind kind) {
  const auto& attrs = b.attrs<Attrs>();
  const int w = kind.weight(), bias = kind.bias();
  const bool flows = b.grad().defined();
  const TensorMeta& x = b.in_meta(0);
  const auto none = [&] { return zeros(x.shape, {.dtype = x.dtype, .device = x.device}); };
  const auto share = [&](int i, const Tensor& each) {
    if (b.needs(i)) b.set_grad_in(i, rules::unbroadcast(each, b.in_meta(i).shape).to(b.in_meta(i).dtype));
  };
  const bool moves = b.needs(0) || (kind.add && b.needs(1));
  if (!moves && !b.needs(w))
    return share(bias, flows ? b.grad().to(x.dtype) : none());  // the rows are not kept
  const Tensor& rows = kind.add ? b.out(1) : b.in(0);
  const Tensor g = flows ? b.grad().to(rows.dtype()) : none();
  const Tensor around = kind.centered ? rows - rules::row_mean(rows, attrs.axes) : rows;
  Shape column = b.out(kind.rstd()).shape();
  for (std::int64_t i = 0; i < attrs.axes; ++i) column.push_back(1);
  const Tensor s = b.out(kind.rstd()).detach().to(rows.dtype()).reshape(column);
  const Tensor scaled = around * s;
  const Tensor squares = rules::row_mean(square(scaled), attrs.axes) + (attrs.eps * s) * s;
  const Tensor unit = rsqrt(where(eq(s, 0), 1, squares));  // 0: a row with an infinity
  const Tensor n = scaled * unit, r = s * unit;
  if (b.needs(w)) share(w, g * n);
  if (kind.centered && b.needs(bias)) share(bias, g);
  if (!moves) return;
  const Tensor h = b.in_meta(w).shape.empty() ? g : g * b.in(w);
  Tensor inner = h - n * rules::row_mean(h * n, attrs.axes);
  if (kind.centered) inner = inner - rules::row_mean(h, attrs.axes);
  Tensor dx = r * inner;
  if (kind.add && b.grad(1).defined()) dx = dx + b.grad(1);
  share(0, dx);
  if (kind.add) share(1, dx);
}

}  // namespace ct::normalization
