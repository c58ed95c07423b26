#include <cotangent/ops/indexing/indexing.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/engine/scatter/scatter.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/indexing/indexing_internal.h>

// Six ops of two kinds. Ops of slices (index_select, index_add, index_copy) have one list of indices for all other
// axes, those of elements (gather, scatter_add, scatter) an index for each. The engine in ops/engine/scatter takes, adds
// and sets; what names its rows is made here.

namespace ct {
namespace indexing_impl {
namespace {

std::int64_t axis_of(const char* op, AttrsView attrs, const Shape& x) {
  return wrap_axis(op, static_cast<const Attrs*>(attrs.data)->axis, x.size());
}

// The engine's view of a contiguous table of this shape.
struct Plan {
  scatter_impl::Selection rows;
  std::int64_t columns = 1;
  IndexSite site;
};

template <Kind kind>
Plan plan(const OpDef& op, AttrsView attrs, const Shape& x, const Tensor& index) {
  Plan plan;
  plan.site = {op.name, IndexKind::position};
  scatter_impl::Selection& rows = plan.rows;
  const int axis = static_cast<int>(axis_of(op.name, attrs, x));
  const Strides steps = contiguous_strides(x), index_steps = contiguous_strides(index.shape());
  rows.index = Integers(index);
  rows.limit = x.empty() ? 1 : x[axis];
  rows.rows = numel(x);
  rows.count = index.numel();
  rows.axis_step = x.empty() ? 1 : steps[axis];
  if (kind == Kind::elements) {
    scatter_impl::Selection::Axis axes[kMaxRank];
    for (int i = 0; i < index.dim(); ++i)
      axes[i] = {index.shape()[i], i == axis ? 0 : steps[i], index_steps[i]};
    rows.append_all(axes, index.dim());
    return plan;
  }
  // Rows are what lies behind the axis.
  plan.columns = 1;
  std::int64_t outer = 1;
  for (int i = 0; i < x.size(); ++i) (i < axis ? outer : plan.columns) *= i == axis ? 1 : x[i];
  rows.axis_step = 1;
  rows.rows = outer * rows.limit;
  rows.count = outer * index.numel();
  rows.append_all({{outer, rows.limit, 0}, {index.numel(), 0, 1}});
  return plan;
}

// ---- shape rules ------------------------------------------------------------------------------------------

void check_index(const Infer& in, const Tensor& index) {
  CT_CHECK(index.dtype() == DType::i64 || index.dtype() == DType::i32, DTypeError, in.op.name, "index is ",
           describe(index), "; it must be i64 or i32: convert with .to(i64)");
}

// The shape of what `index` names of x.
Shape named(Kind kind, const Infer& in) {
  const Tensor &x = in.in(0), &index = in.in(1);
  check_index(in, index);
  const int axis = wrap_axis(in.op.name, in.attrs<Attrs>().axis, x.dim());
  if (kind == Kind::elements) {
    CT_CHECK(index.dim() == x.dim(), ShapeError, in.op.name, "index is ", describe(index), ", x ",
             describe(x), "; they must have the same rank");
    for (int i = 0; i < x.dim(); ++i)
      CT_CHECK(i == axis || index.shape()[i] <= x.shape()[i], ShapeError, in.op.name, "index is ",
               describe(index), ", x ", describe(x), "; no size of index may be above x's but along axis ",
               axis);
    return index.shape();
  }
  CT_CHECK(
      index.dim() <= 1, ShapeError, in.op.name, "index is ", describe(index),
      "; it must have rank 1, or 0 for one slice: gather() and scatter() take an index for each element");
  CT_CHECK(x.dim() > 0 || index.numel() == 1, ShapeError, in.op.name, "index is ", describe(index),
           ", x a scalar; one index must name its element");
  Shape shape = x.shape();
  if (x.dim() > 0) shape[axis] = index.numel();
  return shape;
}

template <Kind kind>
void take_infer(Infer& in) {
  in.output(named(kind, in), in.in(0).dtype());
}

}  // namespace

void put_infer(Kind kind, Infer& in) {
  const Shape wanted = named(kind, in);
  const Tensor &x = in.in(0), &source = in.in(2);
  CT_CHECK(source.shape() == wanted, ShapeError, in.op.name, "source is ", describe(source), ", x ",
           describe(x), ", index ", describe(in.in(1)), "; source must be ", wanted);
  in.output(x.shape(), x.dtype());
}

namespace {
template <Kind kind>
void put_infer(Infer& in) {
  put_infer(kind, in);
}

// ---- kernels ----------------------------------------------------------------------------------------------

template <Kind kind>
void take_forward(const Forward& f) {
  const Plan p = plan<kind>(f.op, f.attrs_view, f.in(0).shape(), f.in(1));
  scatter_impl::take(p.site, p.rows, p.columns, f.in(0), p.columns, f.out());
}

template <Kind kind>
void take_backward(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dx = b.grad_in(0);
  const Plan p = plan<kind>(b.op, b.attrs_view, dx.shape(), b.in(1));
  scatter_impl::add(p.site.op, nullptr, p.rows, p.columns, b.grad(), dx, b.accumulate(0));
}

// `t`, or a copy of it if it shares memory with `out`.
Tensor apart(const Tensor& t, const Tensor& out) {
  return t.impl()->storage == out.impl()->storage ? moved(t, t.device()) : t;
}

}  // namespace

void put(const Forward& f, FunctionRef<void(const Tensor&, const Tensor&, const Tensor&)> change) {
  const Tensor &x = f.in(0), &out = f.out();
  const Tensor index = apart(f.in(1), out), source = apart(f.in(2), out);
  const Tensor y = out.is_contiguous() ? out : Tensor::allocate(out.shape(), out.dtype(), out.device());
  if (y.raw_data() != x.raw_data()) copy_kernel(y, x);
  change(y, index, source);
  if (!y.is_same(out)) copy_kernel(out, y);
}

namespace {

template <Kind kind, bool adds>
void put_forward(const Forward& f) {
  put(f, [&](const Tensor& y, const Tensor& index, const Tensor& source) {
    const Plan p = plan<kind>(f.op, f.attrs_view, y.shape(), index);
    if (adds)
      scatter_impl::add(p.site.op, &p.site, p.rows, p.columns, source, y, true);
    else
      scatter_impl::set(p.site, p.rows, p.columns, source, y);
  });
}

// ---- gradients as ops -------------------------------------------------------------------------------------

Tensor take_like(Kind kind, const Tensor& x, std::int64_t axis, const Tensor& index) {
  return kind == Kind::slices ? index_select(x, axis, index) : gather(x, axis, index);
}

// Adds each taken element where it lay.
template <Kind kind>
void take_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const std::int64_t axis = b.attrs<Attrs>().axis;
  const Tensor none = zeros(b.in_meta(0).shape, {.dtype = b.grad().dtype(), .device = b.grad().device()});
  b.set_grad_in(0, kind == Kind::slices ? index_add(none, axis, b.in(1), b.grad())
                                        : scatter_add(none, axis, b.in(1), b.grad()));
}

// Takes each added element from where it went.
template <Kind kind>
void add_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, b.grad());
  if (b.needs(2)) b.set_grad_in(2, take_like(kind, b.grad(), b.attrs<Attrs>().axis, b.in(1)));
}

// True for the elements of `index` that are the last to name their place, in a shape that broadcasts to the source.
Tensor last_writers(Kind kind, const Backward& b) {
  const Tensor& index = b.in(1);
  const std::int64_t axis = b.attrs<Attrs>().axis;
  const Shape& x = b.in_meta(0).shape;
  const TensorOptions integers{.dtype = DType::i64, .device = index.device()};
  const Tensor order = arange(index.numel(), integers).view(index.shape());
  if (kind == Kind::elements)
    return eq(gather(scatter(full(x, -1, integers), axis, index, order), axis, index), order);
  if (x.empty()) return eq(order, order).view({});
  const int a = wrap_axis(b.op.name, axis, x.size());
  const Tensor list = index.reshape({index.numel()}), writers = order.reshape({index.numel()});
  const Tensor last = index_copy(full({x[a]}, -1, integers), 0, list, writers);
  Shape shape = Shape::filled(x.size(), 1);
  shape[a] = index.numel();
  return eq(index_select(last, 0, list), writers).view(shape);
}

// Overwritten elements get nothing, nor do writes that were overwritten later.
template <Kind kind>
void set_rule(const Backward& b) {
  const std::int64_t axis = b.attrs<Attrs>().axis;
  if (b.needs(0)) {
    const Tensor none = zeros({}, {.dtype = b.grad().dtype(), .device = b.grad().device()});
    const Tensor source = none.expand(b.in_meta(2).shape);
    b.set_grad_in(0, kind == Kind::slices ? index_copy(b.grad(), axis, b.in(1), source)
                                          : scatter(b.grad(), axis, b.in(1), source));
  }
  if (b.needs(2)) b.set_grad_in(2, where(last_writers(kind, b), take_like(kind, b.grad(), axis, b.in(1)), 0));
}

// ---- records ----------------------------------------------------------------------------------------------

constexpr InputDef kIndex{.name = "index", .gradient = false, .any_dtype = true, .contiguous = true};
constexpr InputDef kTakeInputs[] = {{.name = "x", .needs = "index", .accumulates = true, .contiguous = true},
                                    kIndex};
constexpr InputDef kAddInputs[] = {
    {.name = "x"}, kIndex, {.name = "source", .needs = "index", .contiguous = true}};
constexpr InputDef kSetInputs[] = {
    {.name = "x", .needs = "index"}, kIndex, {.name = "source", .needs = "index", .contiguous = true}};
constexpr OutputDef kTaken[] = {{.name = "y", .contiguous = true}};
constexpr OutputDef kChanged[] = {{.name = "y"}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, axis)};

template <Kind kind>
consteval OpDef take_op(const char* name, const char* formula) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = kTakeInputs,
                  .outputs = kTaken,
                  .attributes = kAttributes,
                  .infer = take_infer<kind>,
                  .cpu = {take_forward<kind>, take_backward<kind>},
                  .cuda = {take_forward<kind>, take_backward<kind>},
                  .rule = take_rule<kind>,
                  .dtypes = kAllTypes,
                  .cost = gather_cost});
}

template <Kind kind, bool adds>
consteval OpDef put_op(const char* name, const char* formula) {
  constexpr BackwardFn rule = adds ? add_rule<kind> : set_rule<kind>;
  return checked({.name = name,
                  .formula = formula,
                  .inputs = adds ? std::span(kAddInputs) : std::span(kSetInputs),
                  .outputs = kChanged,
                  .attributes = kAttributes,
                  .infer = put_infer<kind>,
                  .cpu = {put_forward<kind, adds>, rule},
                  .cuda = {put_forward<kind, adds>, rule},
                  .rule = rule,
                  .dtypes = adds ? kNumericTypes : kAllTypes,
                  .flops_each = 1});
}

constexpr OpDef k_index_select = take_op<Kind::slices>("index_select", "y[.., p, ..] = x[.., i_p, ..]");
constexpr OpDef k_gather = take_op<Kind::elements>("gather", "y[.., p, ..] = x[.., i[.., p, ..], ..]");
constexpr OpDef k_index_add =
    put_op<Kind::slices, true>("index_add", "y = x; y[.., i_p, ..] += source[.., p, ..]");
constexpr OpDef k_scatter_add =
    put_op<Kind::elements, true>("scatter_add", "y = x; y[.., i[.., p, ..], ..] += source[.., p, ..]");
constexpr OpDef k_index_copy =
    put_op<Kind::slices, false>("index_copy", "y = x; y[.., i_p, ..] = source[.., p, ..]");
constexpr OpDef k_scatter =
    put_op<Kind::elements, false>("scatter", "y = x; y[.., i[.., p, ..], ..] = source[.., p, ..]");

// ---- arguments --------------------------------------------------------------------------------------------

}  // namespace

Tensor part(const Tensor& source, const Tensor& index) {
  if (!source.defined() || !index.defined() || source.dim() != index.dim()) return source;
  for (int i = 0; i < source.dim(); ++i)
    if (source.shape()[i] < index.shape()[i]) return source;
  Tensor t = source;
  for (int i = 0; i < t.dim(); ++i)
    if (t.shape()[i] > index.shape()[i]) t = t.narrow(i, 0, index.shape()[i]);
  return t;
}

namespace {

Tensor times(const Tensor& source, const Scalar& alpha) {
  return alpha.to<double>() == 1 ? source : source * alpha;
}

Tensor spread(const Tensor& x, const Tensor& index, const Scalar& value) {
  check_fits("scatter", value, x.dtype());
  return full({}, value, {.dtype = x.dtype(), .device = x.device()}).expand(index.shape());
}

}  // namespace
}  // namespace indexing_impl

using namespace indexing_impl;

CT_ROOM(indexing, &k_index_select, &k_gather, &k_index_add, &k_scatter_add, &k_index_copy, &k_scatter)

Tensor index_select(const Tensor& x, Integer axis, const Tensor& indices) {
  return dispatch(k_index_select, {x, indices}, Attrs{axis});
}
Tensor gather(const Tensor& x, Integer axis, const Tensor& index) {
  return dispatch(k_gather, {x, index}, Attrs{axis});
}

Tensor take_along_dim(const Tensor& x, const Tensor& indices, Integer axis) {
  CT_CHECK(x.dim() == indices.dim(), ShapeError, "take_along_dim", "x is ", describe(x), ", indices ",
           describe(indices), "; they must have the same rank");
  if (x.dim() == 0) return gather(x, axis, indices);
  const int a = wrap_axis("take_along_dim", axis, x.dim());
  Shape of_x = x.shape(), of_indices = indices.shape();
  of_x[a] = of_indices[a] = 1;
  Shape shape = broadcast_shapes("take_along_dim", of_x, of_indices);
  shape[a] = x.shape()[a];
  const Tensor from = x.expand(shape);
  shape[a] = indices.shape()[a];
  return gather(from, a, indices.expand(shape));
}
Tensor take_along_dim(const Tensor& x, const Tensor& indices) {
  return gather(x.reshape({-1}), 0, indices.reshape({-1}));
}

Tensor index_add(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source,
                 const Scalar& alpha) {
  return dispatch(k_index_add, {x, index, times(source, alpha)}, Attrs{axis});
}
Tensor& index_add_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  return dispatch_inplace(k_index_add, x, {index, times(source, alpha)}, Attrs{axis});
}

Tensor index_copy(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source) {
  return dispatch(k_index_copy, {x, index, source}, Attrs{axis});
}
Tensor& index_copy_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source) {
  return dispatch_inplace(k_index_copy, x, {index, source}, Attrs{axis});
}

Tensor scatter_add(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source) {
  return dispatch(k_scatter_add, {x, index, part(source, index)}, Attrs{axis});
}
Tensor& scatter_add_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source) {
  return dispatch_inplace(k_scatter_add, x, {index, part(source, index)}, Attrs{axis});
}

Tensor scatter(const Tensor& x, Integer axis, const Tensor& index, const Tensor& source) {
  return dispatch(k_scatter, {x, index, part(source, index)}, Attrs{axis});
}
Tensor scatter(const Tensor& x, Integer axis, const Tensor& index, const Scalar& value) {
  return dispatch(k_scatter, {x, index, spread(x, index, value)}, Attrs{axis});
}
Tensor& scatter_(Tensor& x, Integer axis, const Tensor& index, const Tensor& source) {
  return dispatch_inplace(k_scatter, x, {index, part(source, index)}, Attrs{axis});
}
Tensor& scatter_(Tensor& x, Integer axis, const Tensor& index, const Scalar& value) {
  return dispatch_inplace(k_scatter, x, {index, spread(x, index, value)}, Attrs{axis});
}

CT_MEMBER(Tensor, gather, (Integer axis, const Tensor& index) const, axis, index)
CT_MEMBER(Tensor, index_select, (Integer axis, const Tensor& indices) const, axis, indices)
CT_MEMBER(Tensor, scatter, (Integer axis, const Tensor& index, const Tensor& source) const, axis, index,
          source)
CT_MEMBER(Tensor&, scatter_, (Integer axis, const Tensor& index, const Tensor& source), axis, index, source)
CT_MEMBER(Tensor&, scatter_, (Integer axis, const Tensor& index, const Scalar& value), axis, index, value)
CT_MEMBER(Tensor, scatter_add, (Integer axis, const Tensor& index, const Tensor& source) const, axis, index,
          source)
CT_MEMBER(Tensor&, scatter_add_, (Integer axis, const Tensor& index, const Tensor& source), axis, index,
          source)
CT_MEMBER(Tensor, index_add, (Integer axis, const Tensor& index, const Tensor& source) const, axis, index,
          source)
CT_MEMBER(Tensor&, index_add_, (Integer axis, const Tensor& index, const Tensor& source, const Scalar& alpha),
          axis, index, source, alpha)
CT_MEMBER(Tensor&, index_copy_, (Integer axis, const Tensor& index, const Tensor& source), axis, index,
          source)

}  // namespace ct
