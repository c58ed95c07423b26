#include <cotangent/ops/reduce/scans.h>

#include <limits>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/engine/scan/scan.h>
#include <cotangent/ops/reduce/scans_internal.h>
#include <cotangent/ops/rules_internal.h>

// Each op is an operation of the engine in ops/engine/scan. scans.md derives the gradients.

namespace ct {
namespace reduce::scans {
namespace {

using scan::Kind;

constexpr bool is_extremum(Kind kind) { return kind == Kind::maximum || kind == Kind::minimum; }

template <Kind kind>
void infer(Infer& in) {
  const Tensor& x = in.in(0);
  wrap_axis(in.op.name, in.attrs<Attrs>().axis, x.dim());
  if constexpr (kind == Kind::recurrence)
    CT_CHECK(x.shape() == in.in(1).shape(), ShapeError, in.op.name, "a is ", describe(x), ", x is ",
             describe(in.in(1)), "; they must have the same shape: use expand()");
  const bool widens = (kind == Kind::sum || kind == Kind::product) && !is_floating(x.dtype());
  in.output(x.shape(), widens ? DType::i64 : x.dtype());
  if constexpr (is_extremum(kind)) in.output(x.shape(), DType::i64);
}

int axis_of(const OpDef& op, const Attrs& attrs, const Shape& shape) {
  return wrap_axis(op.name, attrs.axis, shape.size());
}

template <Kind kind>
void forward(const Forward& f) {
  const Attrs& attrs = f.attrs<Attrs>();
  scan::Call call{.op = f.op.name, .kind = kind, .axis = axis_of(f.op, attrs, f.out().shape())};
  call.reverse = attrs.reverse;
  call.x = f.in(kind == Kind::recurrence ? 1 : 0);
  if constexpr (kind == Kind::recurrence) call.a = f.in(0);
  call.y = f.out();
  if constexpr (is_extremum(kind)) call.indices = f.out(1);
  scan::run(call);
}

// ---- gradients --------------------------------------------------------------------------------------------

extern const OpDef k_cumsum;

// t_{i+1} at i, 0 at the end; with `back` t_{i-1}, 0 at the start.
Tensor shifted(const Tensor& t, int axis, bool back) {
  if (t.dim() == 0) return zeros_like(t);
  const std::int64_t n = t.shape()[axis];
  if (n == 0) return t;
  return rules::padded(t.narrow(axis, back ? 0 : 1, n - 1), axis, back, !back);
}

void sum_rule(const Backward& b) {
  const Attrs& attrs = b.attrs<Attrs>();
  if (b.needs(0)) b.set_grad_in(0, dispatch(k_cumsum, {b.grad()}, Attrs{attrs.axis, !attrs.reverse}));
}

// Dtype of a gradient's arithmetic: f32 instead of 16 bits.
Tensor wide(const Tensor& t) { return t.to(accumulate_type(t.dtype())); }

// dx_i = (x_0 ... x_{i-1}) s_i with s_i = g_i + x_{i+1} s_{i+1}. In f64, for either factor may leave the range of f32 where
// their product does not.
void product_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor x = b.in(0).to(f64), g = b.grad().to(f64);
  const int axis = axis_of(b.op, b.attrs<Attrs>(), x.shape());
  Tensor dx = linear_recurrence(shifted(x, axis, false), g, axis, true);
  if (x.dim() > 0 && x.shape()[axis] > 1) {
    // The products before: those of 1, x_0, ..., x_{n-2}.
    const Tensor ones = ones_like(x.narrow(axis, 0, 1));
    dx = dx * cumprod(concat({ones, x.narrow(axis, 0, x.shape()[axis] - 1)}, axis), axis);
  }
  b.set_grad_in(0, dx.to(b.in_meta(0).dtype));
}

// With m_i the largest of x_0 to x_i and r_i = exp(y_i - m_i) = exp(m_{i-1} - m_i) r_{i-1} + exp(x_i - m_i):
// dx_i = exp(x_i - m_i) s_i with s_i = g_i / r_i + exp(m_i - m_{i+1}) s_{i+1}. A large y has no digits left for r.
void logsumexp_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor x = wide(b.in(0)), g = wide(b.grad());
  const int axis = axis_of(b.op, b.attrs<Attrs>(), x.shape());
  const Tensor m = cummax(x.detach(), axis).values;
  // Up to there nothing but -inf: no element counts, and -inf - -inf would be NaN.
  const auto fraction = [](const Tensor& part, const Tensor& whole) {
    return exp(part - where(eq(part, -std::numeric_limits<double>::infinity()), 0, whole));
  };
  const Tensor share = fraction(x, m);
  const std::int64_t n = x.dim() > 0 ? x.shape()[axis] : 1;
  Tensor ratio;
  if (n > 1) ratio = fraction(m.narrow(axis, 0, n - 1), m.narrow(axis, 1, n - 1));
  const auto before = [&](const Tensor& t, bool reverse) {
    return n > 1 ? linear_recurrence(rules::padded(ratio, axis, !reverse, reverse), t, axis, reverse) : t;
  };
  const Tensor r = before(share, false), s = before(g / where(eq(r, 0), 1, r), true);
  b.set_grad_in(0, (share * s).to(b.in_meta(0).dtype));
}

void extremum_rule(const Backward& b) { rules::found_at(b, b.attrs<Attrs>().axis); }

// s_i = g_i + a_{i+1} s_{i+1} is the gradient of x_i, and s_i y_{i-1} that of a_i.
void recurrence_rule(const Backward& b) {
  const Attrs& attrs = b.attrs<Attrs>();
  const Tensor a = b.in(0);
  const int axis = axis_of(b.op, attrs, a.shape());
  const Tensor s = linear_recurrence(shifted(a, axis, attrs.reverse), b.grad(), axis, !attrs.reverse);
  if (b.needs(0)) b.set_grad_in(0, s * shifted(b.out(), axis, !attrs.reverse));
  if (b.needs(1)) b.set_grad_in(1, s);
}

// ---- records ----------------------------------------------------------------------------------------------

constexpr InputDef kX[] = {{.name = "x", .contiguous = true}};
constexpr InputDef kXNeedsX[] = {{.name = "x", .needs = "x", .contiguous = true}};
constexpr InputDef kXNeedsIndices[] = {{.name = "x", .needs = "indices", .contiguous = true}};
constexpr InputDef kAX[] = {{.name = "a", .needs = "a y", .contiguous = true},
                            {.name = "x", .needs = "a", .contiguous = true}};
constexpr OutputDef kY[] = {{.name = "y", .contiguous = true}};
constexpr OutputDef kFound[] = {{.name = "values", .contiguous = true},
                                {.name = "indices", .gradient = false}};
constexpr AttrDef kAxis[] = {CT_ATTRIBUTE(Attrs, axis)};
constexpr AttrDef kAxisReverse[] = {CT_ATTRIBUTE(Attrs, axis), CT_ATTRIBUTE(Attrs, reverse)};

template <Kind kind, BackwardFn rule>
consteval OpDef define(const char* name, const char* formula, std::span<const InputDef> inputs,
                       DTypeSet dtypes = kFloatingTypes) {
  constexpr bool reversible = kind == Kind::sum || kind == Kind::recurrence;
  return checked({.name = name,
                  .formula = formula,
                  .inputs = inputs,
                  .outputs = is_extremum(kind) ? std::span<const OutputDef>(kFound) : kY,
                  .attributes = reversible ? std::span<const AttrDef>(kAxisReverse) : kAxis,
                  .infer = infer<kind>,
                  .cpu = {forward<kind>, rule},
                  .cuda = {forward<kind>, rule},
                  .rule = rule,
                  .autocast = is_extremum(kind) ? AutocastPolicy::promote : AutocastPolicy::f32,
                  .dtypes = dtypes,
                  .flops_each = 1});
}

constexpr OpDef k_cumsum = define<Kind::sum, sum_rule>("cumsum", "y_i = x_0 + ... + x_i", kX, kAllTypes);
constexpr OpDef k_cumprod =
    define<Kind::product, product_rule>("cumprod", "y_i = x_0 * ... * x_i", kXNeedsX, kAllTypes);
constexpr OpDef k_cummax = define<Kind::maximum, extremum_rule>(
    "cummax", "y_i, its place = the largest of x_0 to x_i", kXNeedsIndices, kAllTypes);
constexpr OpDef k_cummin = define<Kind::minimum, extremum_rule>(
    "cummin", "y_i, its place = the smallest of x_0 to x_i", kXNeedsIndices, kAllTypes);
constexpr OpDef k_logcumsumexp =
    define<Kind::logsumexp, logsumexp_rule>("logcumsumexp", "y_i = log(exp(x_0) + ... + exp(x_i))", kXNeedsX);
constexpr OpDef k_linear_recurrence =
    define<Kind::recurrence, recurrence_rule>("linear_recurrence", "y_i = a_i y_{i-1} + x_i", kAX);

Tensor converted(const Tensor& x, std::optional<DType> dtype) { return dtype ? x.to(*dtype) : x; }

ValuesIndices extremum(const OpDef& op, const Tensor& x, std::int64_t axis) {
  auto [values, indices] = dispatch_n<2>(op, {x}, Attrs{axis});
  return {std::move(values), std::move(indices)};
}

}  // namespace
}  // namespace reduce::scans

using namespace reduce::scans;

CT_ROOM(scans, &k_cumsum, &k_cumprod, &k_cummax, &k_cummin, &k_logcumsumexp, &k_linear_recurrence)

Tensor cumsum(const Tensor& x, Integer axis, std::optional<DType> dtype) {
  return dispatch(k_cumsum, {reduce::scans::converted(x, dtype)}, Attrs{axis});
}
Tensor cumprod(const Tensor& x, Integer axis, std::optional<DType> dtype) {
  return dispatch(k_cumprod, {reduce::scans::converted(x, dtype)}, Attrs{axis});
}
ValuesIndices cummax(const Tensor& x, Integer axis) { return extremum(k_cummax, x, axis); }
ValuesIndices cummin(const Tensor& x, Integer axis) { return extremum(k_cummin, x, axis); }
Tensor logcumsumexp(const Tensor& x, Integer axis) { return dispatch(k_logcumsumexp, {x}, Attrs{axis}); }
Tensor linear_recurrence(const Tensor& a, const Tensor& x, Integer axis, Flag reverse) {
  return dispatch(k_linear_recurrence, {a, x}, Attrs{axis, reverse});
}

CT_MEMBER(Tensor, cumsum, (Integer axis) const, axis)
CT_MEMBER(Tensor, cumprod, (Integer axis) const, axis)
CT_MEMBER(Tensor, logcumsumexp, (Integer axis) const, axis)
CT_MEMBER(ValuesIndices, cummax, (Integer axis) const, axis)
CT_MEMBER(ValuesIndices, cummin, (Integer axis) const, axis)

}  // namespace ct
