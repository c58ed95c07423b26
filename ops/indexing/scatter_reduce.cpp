#include <cotangent/ops/indexing/scatter_reduce.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/indexing/scatter_reduce_internal.h>
#include <cotangent/ops/rules_internal.h>
#include <cotangent/ops/sorting/sort.h>

// An op for each kind, by what its gradient needs. Slices are elements whose index is expanded.

namespace ct {
CT_KERNEL_TABLES(scatter_reduce)
namespace indexing_impl::scatter_reduced {

Call::Call(ScatterReduce the_kind, const OpDef& op, const Attrs& attrs, const Shape& x, const Tensor& index)
    : kind(the_kind), include_self(attrs.include_self), site{op.name, IndexKind::position} {
  const int axis = static_cast<int>(wrap_axis(op.name, attrs.axis, x.size()));
  const Strides steps = contiguous_strides(x), index_steps = index.strides();
  int inner = index.dim();  // from this axis on there are columns
  const auto is_column = [&](int i) {
    return i > axis && x[i] > 0 && index.shape()[i] == x[i] && (index_steps[i] == 0 || x[i] == 1);
  };
  while (inner > 0 && is_column(inner - 1)) columns *= x[--inner];
  rows.index = Integers(index);
  rows.limit = x.empty() ? 1 : x[axis];
  rows.rows = numel(x) / columns;
  rows.count = index.numel() / columns;
  rows.axis_step = x.empty() ? 1 : steps[axis] / columns;
  scatter_impl::Selection::Axis axes[kMaxRank];
  for (int i = 0; i < inner; ++i)
    axes[i] = {index.shape()[i], i == axis ? 0 : steps[i] / columns, index_steps[i]};
  rows.append_all(axes, inner);
}

void forward_by(ScatterReduce kind, const Forward& f,
                void (*fold)(const Call&, const Tensor& source, const Tensor& y)) {
  indexing_impl::put(f, [&](const Tensor& y, const Tensor& index, const Tensor& source) {
    const Call call(kind, f.op, f.attrs<Attrs>(), y.shape(), index);
    if (call.rows.count == 0) return;
    if (is_floating(y.dtype()) || y.dtype() == DType::i64) return fold(call, source, y);
    // Sums and products wrap once at the end as they do at each step.
    const Tensor wide = converted(y, DType::i64);
    fold(call, converted(source, DType::i64), wide);
    copy_kernel(y, wide);
  });
}

void backward_by(ScatterReduce kind, const Backward& b, void (*spread)(const Call&, const Spread&)) {
  const Call call(kind, b.op, b.attrs<Attrs>(), b.grad().shape(), b.in(1));
  Spread s;
  s.g = b.grad();
  if (call.extremum() || kind == ScatterReduce::prod) s.x = b.in(0), s.source = b.in(2);
  if (call.extremum()) s.y = b.out();
  if (b.needs(0)) copy_kernel(s.dx = b.grad_in(0), s.g);
  if (b.needs(2)) s.dsource = b.grad_in(2);
  if (call.rows.count > 0 && s.g.numel() > 0) spread(call, s);
}

namespace {

void infer(Infer& in) { indexing_impl::put_infer(indexing_impl::Kind::elements, in); }

// ---- gradients as ops -------------------------------------------------------------------------------------

// x's gradient without include_self: places that were named get nothing.
Tensor unnamed(const Backward& b) { return scatter(b.grad(), b.attrs<Attrs>().axis, b.in(1), 0); }

// Product of each element and those of its row before it, or `back` behind it: twice as many with every step. Elements of
// other rows are chosen away, not multiplied, so that a NaN stays in its row.
Tensor products(Tensor p, const Tensor& rows, bool back) {
  const std::int64_t n = rows.numel();
  for (std::int64_t d = 1; d < n; d *= 2) {
    const auto moved = [&](const Tensor& t) {
      return rules::padded(t.narrow(0, back ? d : 0, n - d), 0, back ? 0 : d, back ? d : 0);
    };
    p = p * where(eq(moved(rows + 1), rows + 1), moved(p), 1);
  }
  return p;
}

// The product of the others, those before by those behind, with the places in the order of their rows. No quotient, so that
// it is right to every order also where some are 0. In f64, for either factor may leave the range where their product
// does not.
void product_rule(const Backward& b) {
  const Attrs& attrs = b.attrs<Attrs>();
  const Tensor &index = b.in(1), &x = b.in(0), &source = b.in(2);
  const std::int64_t n = index.numel();
  if (n == 0) {
    if (b.needs(0)) b.set_grad_in(0, b.grad());
    if (b.needs(2)) b.set_grad_in(2, zeros_like(source));
    return;
  }
  const Tensor numbers = arange(x.numel(), {.dtype = DType::i64, .device = x.device()}).view(x.shape());
  const Tensor named = gather(numbers, attrs.axis, index).reshape({n});
  const Tensor order = argsort(named), rows = index_select(named, 0, order);
  const auto at_rows = [&](const Tensor& t) { return index_select(t.to(f64).reshape({-1}), 0, rows); };
  const Tensor s = index_select(source.to(f64).reshape({n}), 0, order), g = at_rows(b.grad());
  const Tensor up_to = products(s, rows, false), from = products(s, rows, true);
  const Tensor change = ne(rows.narrow(0, 1, n - 1), rows.narrow(0, 0, n - 1)),
               end = ones({1}, {.dtype = DType::boolean, .device = x.device()});
  const Tensor first = concat({end, change}, 0), last = concat({change, end}, 0);
  if (b.needs(2)) {
    Tensor before = where(first, 1, rules::padded(up_to.narrow(0, 0, n - 1), 0, 1, 0));
    if (attrs.include_self) before = before * at_rows(x);
    const Tensor behind = where(last, 1, rules::padded(from.narrow(0, 1, n - 1), 0, 0, 1));
    b.set_grad_in(
        2,
        index_copy(zeros_like(s), 0, order, g * before * behind).reshape(source.shape()).to(source.dtype()));
  }
  if (!b.needs(0)) return;
  Tensor dx = unnamed(b);
  if (attrs.include_self)
    dx = index_add(dx.to(f64).reshape({-1}), 0, rows, where(first, g * from, 0))
             .reshape(x.shape())
             .to(x.dtype());
  b.set_grad_in(0, dx);
}

// Each cotangent is shared among the elements of its place: all, or those that equal the result.
template <ScatterReduce kind>
void rule(const Backward& b) {
  if constexpr (kind == ScatterReduce::prod) return product_rule(b);
  const Attrs& attrs = b.attrs<Attrs>();
  const Tensor &g = b.grad(), &index = b.in(1);
  constexpr bool extremum = kind == ScatterReduce::amax || kind == ScatterReduce::amin;
  Tensor share, own, others;
  if constexpr (kind == ScatterReduce::sum) {
    share = g;
  } else {
    const auto equal = [](const Tensor& t, const Tensor& y) {
      return logical_or(eq(t, y), logical_and(ne(t, t), ne(y, y)));
    };
    if constexpr (extremum) {
      const Tensor y = b.out().detach();
      own = equal(b.in(0).detach(), y), others = equal(b.in(2).detach(), gather(y, attrs.axis, index));
    } else {
      const TensorOptions truth{.dtype = DType::boolean, .device = g.device()};
      own = ones(g.shape(), truth), others = ones(index.shape(), truth);
    }
    const Tensor counted = attrs.include_self ? own.to(g.dtype()) : zeros_like(g.detach());
    share = g / maximum(scatter_add(counted, attrs.axis, index, others.to(g.dtype())), 1);
  }
  const auto among = [](const Tensor& chosen, const Tensor& t) { return extremum ? where(chosen, t, 0) : t; };
  if (b.needs(0)) b.set_grad_in(0, attrs.include_self ? among(own, share) : unnamed(b));
  if (b.needs(2)) b.set_grad_in(2, among(others, gather(share, attrs.axis, index)));
}

// ---- records ----------------------------------------------------------------------------------------------

struct Inputs {
  InputDef list[3];
  consteval explicit Inputs(const char* needs)
      : list{{.name = "x", .needs = needs, .contiguous_saved = true},
             {.name = "index", .gradient = false, .any_dtype = true},
             {.name = "source", .needs = needs, .contiguous = true}} {}
};
constexpr Inputs kLinear("index"), kProduct("x index source"), kExtremum("x index source y");
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, axis), CT_ATTRIBUTE(Attrs, include_self)};

template <ScatterReduce kind>
consteval OpDef define(const char* name, const char* formula, std::span<const InputDef> inputs,
                       DTypeSet dtypes = kNumericTypes) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = inputs,
                  .outputs = kOutputs,
                  .attributes = kAttributes,
                  .infer = infer,
                  .kernels = &kernel_tables::scatter_reduce,
                  .rule = rule<kind>,
                  .dtypes = dtypes,
                  .flops_each = 1});
}

constexpr OpDef k_sum =
    define<ScatterReduce::sum>("scatter_reduce_sum", "y[v] = x[v] + sum_p [i_p = v] source[p]", kLinear.list);
constexpr OpDef k_prod = define<ScatterReduce::prod>(
    "scatter_reduce_prod", "y[v] = x[v] * product of source[p] with i_p = v", kProduct.list);
constexpr OpDef k_mean = define<ScatterReduce::mean>(
    "scatter_reduce_mean", "y[v] = mean of x[v] and source[p] with i_p = v", kLinear.list, kFloatingTypes);
constexpr OpDef k_amax = define<ScatterReduce::amax>(
    "scatter_reduce_amax", "y[v] = largest of x[v] and source[p] with i_p = v", kExtremum.list);
constexpr OpDef k_amin = define<ScatterReduce::amin>(
    "scatter_reduce_amin", "y[v] = smallest of x[v] and source[p] with i_p = v", kExtremum.list);

const OpDef& op_of(ScatterReduce kind) {
  constexpr const OpDef* kOps[] = {&k_sum, &k_prod, &k_mean, &k_amax, &k_amin};
  CT_CHECK(static_cast<std::size_t>(kind) < std::size(kOps), ValueError, "scatter_reduce", "reduce is ",
           static_cast<int>(kind), "; it must be sum, prod, mean, amax or amin");
  return *kOps[static_cast<std::size_t>(kind)];
}

// An index for each element of `source`; `index` itself where the op will refuse.
Tensor of_elements(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source) {
  constexpr const char* op = "index_reduce";
  if (!x.defined() || !index.defined() || !source.defined()) return index;
  CT_CHECK(index.dim() <= 1, ShapeError, op, "index is ", describe(index),
           "; it must have rank 1, or 0 for one slice: scatter_reduce() takes an index for each element");
  const int a = wrap_axis(op, axis, x.dim());
  Shape line = Shape::filled(x.dim(), 1), wanted = x.shape();
  if (x.dim() > 0) line[a] = wanted[a] = index.numel();
  CT_CHECK(source.shape() == wanted && (x.dim() > 0 || index.numel() == 1), ShapeError, op, "source is ",
           describe(source), ", x ", describe(x), ", index ", describe(index), "; source must be ", wanted,
           x.dim() > 0 ? "" : ", and there must be one index");
  return index.reshape(line).expand(wanted);
}

bool is_integer_mean(const Tensor& x, const Tensor& source, ScatterReduce kind) {
  return kind == ScatterReduce::mean && x.defined() && source.defined() &&
         k_sum.dtypes & dtype_bit(x.dtype()) && !is_floating(x.dtype()) && x.dtype() == source.dtype();
}

Tensor reduced(const Tensor& x, const Attrs& attrs, const Tensor& index, const Tensor& source,
               ScatterReduce kind) {
  if (!is_integer_mean(x, source, kind)) return dispatch(op_of(kind), {x, index, source}, attrs);
  const auto total = [&](const Tensor& own, const Tensor& others) {
    return dispatch(k_sum, {own, index, others}, attrs);
  };
  const Tensor a = x.to(i64), b = source.to(i64);
  return floor_divide(total(a, b), total(ones_like(a), ones_like(b))).to(x.dtype());
}

Tensor& reduce_in_place(Tensor& x, const Attrs& attrs, const Tensor& index, const Tensor& source,
                        ScatterReduce kind) {
  if (is_integer_mean(x, source, kind)) return x.copy_(reduced(x, attrs, index, source, kind));
  return dispatch_inplace(op_of(kind), x, {index, source}, attrs);
}

}  // namespace
}  // namespace indexing_impl::scatter_reduced

using namespace indexing_impl::scatter_reduced;

CT_ROOM(scatter_reduce, &k_sum, &k_prod, &k_mean, &k_amax, &k_amin)

Tensor scatter_reduce(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                      ScatterReduce reduce, Flag include_self) {
  return reduced(x, {axis, include_self}, index, indexing_impl::part(source, index), reduce);
}
Tensor& scatter_reduce_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                        ScatterReduce reduce, Flag include_self) {
  return reduce_in_place(x, {axis, include_self}, index, indexing_impl::part(source, index), reduce);
}
Tensor index_reduce(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                    ScatterReduce reduce, Flag include_self) {
  return reduced(x, {axis, include_self}, of_elements(x, axis, index, source), source, reduce);
}
Tensor& index_reduce_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                      ScatterReduce reduce, Flag include_self) {
  return reduce_in_place(x, {axis, include_self}, of_elements(x, axis, index, source), source, reduce);
}

#define CT_REDUCE_MEMBERS(name)                                                                           \
  CT_MEMBER(Tensor, name,                                                                                 \
            (Integer axis, const Tensor& index, const Tensor& source, ScatterReduce reduce,               \
             Flag include_self) const,                                                                    \
            axis, index, source, reduce, include_self)                                                    \
  CT_MEMBER(                                                                                              \
      Tensor&, name##_,                                                                                   \
      (Integer axis, const Tensor& index, const Tensor& source, ScatterReduce reduce, Flag include_self), \
      axis, index, source, reduce, include_self)
CT_REDUCE_MEMBERS(scatter_reduce)
CT_REDUCE_MEMBERS(index_reduce)
#undef CT_REDUCE_MEMBERS

}  // namespace ct
