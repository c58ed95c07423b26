#include <cotangent/ops/reduce/reduce.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/indexing/rearrange.h>
#include <cotangent/ops/reduce/kinds_internal.h>
#include <cotangent/ops/reduce/scans.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(reduce_sum)
CT_KERNEL_TABLES(reduce_product)
CT_KERNEL_TABLES(reduce_extremum)
CT_KERNEL_TABLES(reduce_truth)
CT_KERNEL_TABLES(reduce_position)
CT_KERNEL_TABLES(reduce_argument)
CT_KERNEL_TABLES(reduce_statistics)
CT_KERNEL_TABLES(reduce_norm)
CT_KERNEL_TABLES(reduce_logsumexp)
namespace {

using reduce::Attrs;
using reduce::Kind;

constexpr bool is_extremum(Kind kind) {
  return kind == Kind::amax || kind == Kind::amin || kind == Kind::max || kind == Kind::min ||
         kind == Kind::argmax || kind == Kind::argmin;
}

template <Kind kind>
void infer(Infer& infer) {
  const Attrs& attrs = infer.attrs<Attrs>();
  const Tensor& x = infer.in(0);
  const fold::AxisMask mask = reduce::axis_mask(infer.op.name, attrs.axes, x.dim());
  if (kind == Kind::max || kind == Kind::min) {
    CT_CHECK(attrs.axes.size() == 1, ShapeError, infer.op.name, "got ", attrs.axes.size(),
             " axes; one is wanted: use amax or amin for several");
  }
  Shape shape;
  std::int64_t count = 1;
  for (int i = 0; i < x.dim(); ++i) {
    const bool reduced = mask >> i & 1u;
    if (reduced) count *= x.shape()[i];
    if (reduced && attrs.keepdim) shape.push_back(1);
    if (!reduced) shape.push_back(x.shape()[i]);
  }
  if constexpr (kind == Kind::norm)
    CT_CHECK(!std::isnan(attrs.number), ValueError, infer.op.name,
             "p is nan; the order of a norm must be a number (2 is usual)");
  if constexpr (kind == Kind::var || kind == Kind::std)
    CT_CHECK(std::isfinite(attrs.number), ValueError, infer.op.name, "correction is ", attrs.number,
             "; it must be finite (1 is usual)");
  if (is_extremum(kind) || (kind == Kind::norm && std::isinf(attrs.number)))
    CT_CHECK(count > 0, ShapeError, infer.op.name, "got ", describe(x),
             ": a reduction over no elements, which has no largest or smallest one; reduce over axes whose "
             "sizes are not 0");
  DType dtype = x.dtype();
  if constexpr (kind == Kind::any || kind == Kind::all) {
    dtype = DType::boolean;
  } else if constexpr (kind == Kind::argmax || kind == Kind::argmin) {
    dtype = DType::i64;
  } else if constexpr (kind == Kind::sum || kind == Kind::mean || kind == Kind::prod) {
    if (!is_floating(dtype)) dtype = DType::i64;
    if (attrs.converts) {
      CT_CHECK(accumulate_type(attrs.dtype) == accumulate_type(dtype), DTypeError, infer.op.name,
               "can't reduce ", describe(x), " to ", attrs.dtype,
               " directly; convert it with .to(dtype) first");
      dtype = attrs.dtype;
    }
  }
  infer.output(shape, dtype);
  if constexpr (kind == Kind::max || kind == Kind::min) infer.output(shape, DType::i64);
  if constexpr (kind == Kind::var || kind == Kind::std) infer.output(shape, accumulate_type(x.dtype()));
  if constexpr (kind == Kind::logsumexp) infer.output({numel(shape), 2}, accumulate_type(x.dtype()));
}

// ---- rules: the formulas of engine/fold/gradients.h on tensors --------------------------------------------

// A call of a reduction as its rule sees it: results and cotangents with the reduced axes as axes of size 1.
struct RuleCall {
  explicit RuleCall(const Backward& b) : shape(b.in_meta(0).shape), kept(b.in_meta(0).shape) {
    const Attrs& attrs = b.attrs<Attrs>();
    const fold::AxisMask mask = reduce::axis_mask(b.op.name, attrs.axes, shape.size());
    for (int i = 0; i < shape.size(); ++i) {
      if (!(mask >> i & 1u)) {
        others.push_back(i);
        continue;
      }
      count *= shape[i];
      axes.push_back(i);
      kept[i] = 1;
    }
    g = keep(b.grad().to(b.in_meta(0).dtype));
  }
  Tensor keep(const Tensor& t) const { return t.reshape(kept); }
  // A scalar has no axes to reduce over, and no axes mean all.
  Tensor mean(const Tensor& x) const { return axes.empty() ? x : ct::mean(x, axes, true); }
  Tensor sum(const Tensor& x) const { return axes.empty() ? x : ct::sum(x, axes, true); }
  /// The cotangent shared out evenly among the elements that are `chosen`.
  Tensor among(const Tensor& chosen) const {
    const Tensor each = chosen.to(g.dtype());
    return g * (each / sum(each));
  }

  Shape shape, kept;
  Dims axes, others;
  std::int64_t count = 1;
  Tensor g;
};

// The product of all other factors, for each: of those before and of those behind. No quotient, so that it is right to every
// order also where some are 0.
Tensor products_of_others(const Tensor& x, const RuleCall& call) {
  Dims order = call.others, back = call.shape;
  for (const std::int64_t axis : call.axes) order.push_back(axis);
  Shape moved;
  for (int k = 0; k < order.size(); ++k) {
    moved.push_back(call.shape[static_cast<int>(order[k])]);
    back[static_cast<int>(order[k])] = k;
  }
  const std::int64_t n = call.count, rows = n > 0 ? x.numel() / n : 0;
  if (rows == 0) return x;
  const Tensor factors = x.permute(order).reshape({rows, n});
  // Products on the way would leave the range. Each factor is divided by a power of 2 (a constant) such that all products of
  // the first ones lie about 1: by the difference of what their logarithms sum up to, rounded down.
  Tensor scale, rest, beyond;
  {
    const NoGrad guard;
    const Tensor size = abs(factors.detach());
    const Tensor sums = floor(cumsum(log2(where(logical_and(gt(size, 0), isfinite(size)), size, 1)), 1));
    const Tensor earlier = concat({zeros_like(sums.narrow(1, 0, 1)), sums.narrow(1, 0, n - 1)}, 1);
    const double most = x.dtype() == DType::f64 ? 1022 : 126;
    const auto near = [&](const Tensor& t) { return clamp(t, -most, most); };
    const Tensor power = near(sums - earlier), left = sum(power, {1}, true) - power;
    scale = exp2(-power);
    rest = exp2(near(left)),
    beyond = exp2(near(left - near(left)));  // one number of both would be infinite, times 0
  }
  const Tensor scaled = factors * scale;
  const auto before = [&](const Tensor& t) {
    return cumprod(
        concat({ones({rows, 1}, {.dtype = t.dtype(), .device = t.device()}), t.narrow(1, 0, n - 1)}, 1), 1);
  };
  return (before(scaled) * flip(before(flip(scaled, {1})), {1}) * rest * beyond).reshape(moved).permute(back);
}

Tensor norm_slope(const Tensor& x, const Tensor& y, double p, const RuleCall& call) {
  const Tensor& g = call.g;
  if (p == 0) return g * (0 * sign(x));
  if (p == 1) return g * sign(x);
  const Tensor none = eq(y, 0);
  if (p == 2) return where(none, 0, g * (x / where(none, 1, y)));
  if (std::isinf(p)) return call.among(logical_or(eq(abs(x), y), ne(x, x))) * sign(x);
  const Tensor nothing = logical_or(eq(x, 0), none);
  return where(nothing, 0, g * sign(x) * pow(abs(where(nothing, 1, x)) / where(nothing, 1, y), p - 1));
}

template <Kind kind>
Tensor slope(const Backward& b, const RuleCall& call) {
  const Tensor& g = call.g;
  const double number = b.attrs<Attrs>().number,
               freedom = std::max(static_cast<double>(call.count) - number, 0.0);
  if constexpr (kind == Kind::sum) {
    return g.expand(call.shape);
  } else if constexpr (kind == Kind::mean) {
    return (g / static_cast<double>(call.count)).expand(call.shape);
  } else if constexpr (kind == Kind::prod) {
    return call.axes.empty() ? g : g * products_of_others(b.in(0), call);
  } else if constexpr (kind == Kind::amax || kind == Kind::amin) {
    const Tensor x = b.in(0).detach();
    const auto best = kind == Kind::amax ? amax : amin;
    const Tensor y = call.axes.empty() ? x : best(x, call.axes, true);
    return call.among(logical_or(eq(x, y), logical_and(ne(x, x), ne(y, y))));  // a NaN wins
  } else if constexpr (kind == Kind::max || kind == Kind::min) {
    if (call.axes.empty()) return g;
    const auto axis = static_cast<int>(call.axes[0]);
    const Tensor place = call.keep(b.out(1)).squeeze(axis);
    return g * rules::one_hot(place, axis, call.shape[axis], g.dtype());
  } else if constexpr (kind == Kind::var) {
    return g * (b.in(0) - call.mean(b.in(0))) * (2 / freedom);
  } else if constexpr (kind == Kind::std) {
    const Tensor y = call.keep(b.out());
    const Tensor none = eq(y, 0), around = b.in(0) - call.mean(b.in(0));
    return where(none, 0, g * (around / where(none, 1, y)) * (1 / freedom));
  } else if constexpr (kind == Kind::norm) {
    return norm_slope(b.in(0), call.keep(b.out()), number, call);
  } else {
    static_assert(kind == Kind::logsumexp);
    // From the largest, as that alone has no digits left for the others.
    if (call.axes.empty()) return g;
    if (b.in(0).numel() == 0) return g * b.in(0);
    const Tensor largest = amax(b.in(0).detach(), call.axes, true);
    const Tensor e = exp(b.in(0) - where(eq(largest, -std::numeric_limits<double>::infinity()), 0, largest));
    return g * (e / where(isinf(largest), 1, sum(e, call.axes, true)));
  }
}

template <Kind kind>
void rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, slope<kind>(b, RuleCall(b)));
}

// Positions and truth values have no gradient.
template <Kind kind>
constexpr BackwardFn rule_of = rule<kind>;
template <>
constexpr BackwardFn rule_of<Kind::argmax> = nullptr;
template <>
constexpr BackwardFn rule_of<Kind::argmin> = nullptr;
template <>
constexpr BackwardFn rule_of<Kind::any> = nullptr;
template <>
constexpr BackwardFn rule_of<Kind::all> = nullptr;

// ---- definitions ---------------------------------------------------------------------------------------

constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, axes), CT_ATTRIBUTE(Attrs, keepdim),
                                   CT_ATTRIBUTE(Attrs, number), CT_ATTRIBUTE(Attrs, converts),
                                   CT_ATTRIBUTE(Attrs, dtype)};
// The input by what its gradient needs.
consteval InputDef x_needing(const char* needs) {
  return {.name = "x", .needs = needs, .contiguous_saved = true};
}
constexpr InputDef kX[] = {x_needing("")}, kXNeedsX[] = {x_needing("x")},
                   kXNeedsIndices[] = {x_needing("indices")}, kXNeedsMean[] = {x_needing("x mean")},
                   kXNeedsDeviation[] = {x_needing("x y mean")}, kXNeedsY[] = {x_needing("x y")},
                   kXNeedsTerms[] = {x_needing("x terms")},
                   kXWithoutGradient[] = {{.name = "x", .gradient = false}};
constexpr OutputDef kY[] = {{"y"}}, kTruth[] = {{"y", false}}, kIndices[] = {{"indices", false}},
                    kValues[] = {{"values"}, {"indices", false}}, kYMean[] = {{"y"}, {"mean", false}},
                    kYTerms[] = {{"y"}, {"terms", false}};

// The kernels of a kind, so that a program carries those of the kinds that it uses.
constexpr const KernelTables* tables_of(Kind kind) {
  switch (kind) {
    case Kind::sum:
    case Kind::mean: return &kernel_tables::reduce_sum;
    case Kind::prod: return &kernel_tables::reduce_product;
    case Kind::amax:
    case Kind::amin: return &kernel_tables::reduce_extremum;
    case Kind::any:
    case Kind::all: return &kernel_tables::reduce_truth;
    case Kind::max:
    case Kind::min: return &kernel_tables::reduce_position;
    case Kind::argmax:
    case Kind::argmin: return &kernel_tables::reduce_argument;
    case Kind::var:
    case Kind::std: return &kernel_tables::reduce_statistics;
    case Kind::norm: return &kernel_tables::reduce_norm;
    default: return &kernel_tables::reduce_logsumexp;
  }
}

// Beside what all have: which dtypes an op takes, and whether it adds many numbers up, which Autocast does in f32.
struct Traits {
  DTypeSet dtypes = kAllTypes;
  bool sums = false;
};

template <Kind kind>
consteval OpDef define(const char* name, const char* formula, std::span<const InputDef> inputs,
                       std::span<const OutputDef> outputs, Traits traits = {}) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = inputs,
                  .outputs = outputs,
                  .attributes = kAttributes,
                  .infer = infer<kind>,
                  .kernels = tables_of(kind),
                  .fast_f64 = true,
                  .rule = rule_of<kind>,
                  .autocast = traits.sums ? AutocastPolicy::f32 : AutocastPolicy::promote,
                  .dtypes = traits.dtypes,
                  .flops_each = 1});
}

constexpr Traits kSums{.sums = true}, kFloatingSums{kFloatingTypes, true};
constexpr OpDef k_sum = define<Kind::sum>("sum", "y = sum(x)", kX, kY, kSums);
constexpr OpDef k_mean = define<Kind::mean>("mean", "y = sum(x) / n", kX, kY, kFloatingSums);
constexpr OpDef k_prod = define<Kind::prod>("prod", "y = product of x", kXNeedsX, kY, kSums);
constexpr OpDef k_amax = define<Kind::amax>("amax", "y = largest x", kXNeedsX, kY);
constexpr OpDef k_amin = define<Kind::amin>("amin", "y = smallest x", kXNeedsX, kY);
constexpr OpDef k_max =
    define<Kind::max>("max", "y, i = largest x along an axis, its position", kXNeedsIndices, kValues);
constexpr OpDef k_min =
    define<Kind::min>("min", "y, i = smallest x along an axis, its position", kXNeedsIndices, kValues);
constexpr OpDef k_argmax =
    define<Kind::argmax>("argmax", "i = position of the first largest x", kXWithoutGradient, kIndices);
constexpr OpDef k_argmin =
    define<Kind::argmin>("argmin", "i = position of the first smallest x", kXWithoutGradient, kIndices);
constexpr OpDef k_any = define<Kind::any>("any", "y = some x differs from 0", kXWithoutGradient, kTruth);
constexpr OpDef k_all = define<Kind::all>("all", "y = all x differ from 0", kXWithoutGradient, kTruth);
constexpr OpDef k_var =
    define<Kind::var>("var", "y = sum((x - mean(x))^2) / (n - c)", kXNeedsMean, kYMean, kFloatingSums);
constexpr OpDef k_std = define<Kind::std>("std", "y = sqrt(var(x))", kXNeedsDeviation, kYMean, kFloatingSums);
constexpr OpDef k_norm = define<Kind::norm>("norm", "y = sum(|x|^p)^(1/p)", kXNeedsY, kY, kFloatingSums);
constexpr OpDef k_logsumexp =
    define<Kind::logsumexp>("logsumexp", "y = log(sum(exp(x)))", kXNeedsTerms, kYTerms, kFloatingSums);

Attrs over(const Dims& axes, bool keepdim, double number = 0) {
  Attrs attrs;
  attrs.axes = axes;
  attrs.keepdim = keepdim;
  attrs.number = number;
  return attrs;
}

// Sums into another dtype: directly where the kernels accumulate in a type that both share, else by a
// conversion first.
Tensor reduce_as(const OpDef& op, const Tensor& x, const Dims& axes, bool keepdim,
                 std::optional<DType> dtype) {
  Attrs attrs = over(axes, keepdim);
  if (!dtype) return dispatch(op, {x}, attrs);
  attrs.converts = true;
  attrs.dtype = *dtype;
  const bool direct = accumulate_type(x.dtype()) == accumulate_type(*dtype) &&
                      (is_floating(x.dtype()) || *dtype == DType::i64);
  if (direct) return dispatch(op, {x}, attrs);
  return dispatch(op, {x.to(*dtype)}, attrs);
}

ValuesIndices along(const OpDef& op, const Tensor& x, std::int64_t axis, bool keepdim) {
  auto [values, indices] = dispatch_n<2>(op, {x}, over({axis}, keepdim));
  return {std::move(values), std::move(indices)};
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& axes, Flag keepdim, std::optional<DType> dtype) {
  return reduce_as(k_sum, x, axes, keepdim, dtype);
}
Tensor mean(const Tensor& x, const Dims& axes, Flag keepdim, std::optional<DType> dtype) {
  return reduce_as(k_mean, x, axes, keepdim, dtype);
}
Tensor prod(const Tensor& x, const Dims& axes, Flag keepdim, std::optional<DType> dtype) {
  return reduce_as(k_prod, x, axes, keepdim, dtype);
}
Tensor amax(const Tensor& x, const Dims& axes, Flag keepdim) {
  return dispatch(k_amax, {x}, over(axes, keepdim));
}
Tensor amin(const Tensor& x, const Dims& axes, Flag keepdim) {
  return dispatch(k_amin, {x}, over(axes, keepdim));
}
MinMax aminmax(const Tensor& x, const Dims& axes, Flag keepdim) {
  return {amin(x, axes, keepdim), amax(x, axes, keepdim)};
}
Tensor max(const Tensor& x) { return amax(x); }
Tensor min(const Tensor& x) { return amin(x); }
Tensor max(const Tensor& x, const Tensor& other) { return maximum(x, other); }
Tensor min(const Tensor& x, const Tensor& other) { return minimum(x, other); }
ValuesIndices max(const Tensor& x, Integer axis, Flag keepdim) { return along(k_max, x, axis, keepdim); }
ValuesIndices min(const Tensor& x, Integer axis, Flag keepdim) { return along(k_min, x, axis, keepdim); }
Tensor argmax(const Tensor& x) { return dispatch(k_argmax, {x}, over({}, false)); }
Tensor argmax(const Tensor& x, Integer axis, Flag keepdim) {
  return dispatch(k_argmax, {x}, over({axis}, keepdim));
}
Tensor argmin(const Tensor& x) { return dispatch(k_argmin, {x}, over({}, false)); }
Tensor argmin(const Tensor& x, Integer axis, Flag keepdim) {
  return dispatch(k_argmin, {x}, over({axis}, keepdim));
}
Tensor any(const Tensor& x, const Dims& axes, Flag keepdim) {
  return dispatch(k_any, {x}, over(axes, keepdim));
}
Tensor all(const Tensor& x, const Dims& axes, Flag keepdim) {
  return dispatch(k_all, {x}, over(axes, keepdim));
}
Tensor var(const Tensor& x, const Dims& axes, Real correction, Flag keepdim) {
  return dispatch(k_var, {x}, over(axes, keepdim, correction));
}
Tensor stddev(const Tensor& x, const Dims& axes, Real correction, Flag keepdim) {
  return dispatch(k_std, {x}, over(axes, keepdim, correction));
}
Tensor norm(const Tensor& x, Real p, const Dims& axes, Flag keepdim) {
  return dispatch(k_norm, {x}, over(axes, keepdim, p));
}
Tensor logsumexp(const Tensor& x, const Dims& axes, Flag keepdim) {
  return dispatch(k_logsumexp, {x}, over(axes, keepdim));
}

CT_MEMBER(Tensor, sum, (const Dims& axes, Flag keepdim) const, axes, keepdim)
CT_MEMBER(Tensor, mean, (const Dims& axes, Flag keepdim) const, axes, keepdim)
CT_MEMBER(Tensor, prod, (const Dims& axes, Flag keepdim) const, axes, keepdim)
CT_MEMBER(Tensor, amax, (const Dims& axes, Flag keepdim) const, axes, keepdim)
CT_MEMBER(Tensor, amin, (const Dims& axes, Flag keepdim) const, axes, keepdim)
CT_MEMBER(Tensor, any, (const Dims& axes, Flag keepdim) const, axes, keepdim)
CT_MEMBER(Tensor, all, (const Dims& axes, Flag keepdim) const, axes, keepdim)
CT_MEMBER(Tensor, logsumexp, (const Dims& axes, Flag keepdim) const, axes, keepdim)
CT_MEMBER(Tensor, sum, () const)
CT_MEMBER(Tensor, mean, () const)
CT_MEMBER(Tensor, max, () const)
CT_MEMBER(Tensor, min, () const)
CT_MEMBER(Tensor, max, (const Tensor& other) const, other)
CT_MEMBER(Tensor, min, (const Tensor& other) const, other)
CT_MEMBER(Tensor, argmax, () const)
CT_MEMBER(Tensor, argmin, () const)
CT_MEMBER(Tensor, argmax, (Integer axis, Flag keepdim) const, axis, keepdim)
CT_MEMBER(Tensor, argmin, (Integer axis, Flag keepdim) const, axis, keepdim)
CT_MEMBER(ValuesIndices, max, (Integer axis, Flag keepdim) const, axis, keepdim)
CT_MEMBER(ValuesIndices, min, (Integer axis, Flag keepdim) const, axis, keepdim)
CT_MEMBER(Tensor, var, (const Dims& axes, Real correction, Flag keepdim) const, axes, correction, keepdim)
Tensor Tensor::std(const Dims& axes, Real correction, Flag keepdim) const {
  return stddev(*this, axes, correction, keepdim);
}
CT_MEMBER(Tensor, norm, (Real p, const Dims& axes, Flag keepdim) const, p, axes, keepdim)

CT_ROOM(reduce, &k_sum, &k_mean, &k_prod, &k_amax, &k_amin, &k_max, &k_min, &k_argmax, &k_argmin, &k_any,
        &k_all, &k_var, &k_std, &k_norm, &k_logsumexp)
}  // namespace ct
