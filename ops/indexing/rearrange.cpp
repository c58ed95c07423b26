#include <cotangent/ops/indexing/rearrange.h>

#include <algorithm>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/indexing/rearrange_internal.h>
#include <cotangent/ops/reduce/reduce.h>

// All but pad are made of other ops.

namespace ct {
namespace {

// ---- pad: a filled tensor with a copy inside ----------------------------------------------------------------

using indexing_impl::padded::Attrs;

void pad_infer(Infer& in) {
  const Attrs& a = in.attrs<Attrs>();
  Shape shape = in.in(0).shape();
  CT_CHECK(a.before.size() == shape.size() && a.after.size() == shape.size(), ValueError, "pad", "got ",
           a.before, " elements before and ", a.after, " behind for ", describe(in.in(0)),
           "; there must be one number for "
           "each axis");
  for (int i = 0; i < shape.size(); ++i) {
    CT_CHECK(a.before[i] >= 0 && a.after[i] >= 0, ValueError, "pad", "got ", a.before,
             " elements before and ", a.after, " behind; they must be >= 0");
    CT_CHECK(!__builtin_add_overflow(shape[i], a.before[i], &shape[i]) &&
                 !__builtin_add_overflow(shape[i], a.after[i], &shape[i]),
             ShapeError, "pad", "got ", a.before, " elements before and ", a.after, " behind; axis ", i,
             " must have fewer than 2^63 with them");
  }
  check_sizes("pad", shape);
  in.output(shape, in.in(0).dtype());
}

// The part of y that is x.
Tensor inside(Tensor y, const Attrs& a) {
  for (int i = 0; i < y.dim(); ++i)
    if (a.before[i] != 0 || a.after[i] != 0)
      y = y.narrow(i, a.before[i], y.shape()[i] - a.before[i] - a.after[i]);
  return y;
}

void pad_forward(const Forward& f) {
  const Attrs& a = f.attrs<Attrs>();
  const Tensor& y = f.out();
  fill_kernel(y, a.value);
  std::int64_t first = y.storage_offset();
  for (int i = 0; i < y.dim(); ++i) first += a.before[i] * y.strides()[i];
  copy_kernel(Tensor::from_storage(y.impl()->storage, f.in(0).shape(), y.strides(), first, y.dtype()),
              f.in(0));
}

void pad_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, inside(b.grad(), b.attrs<Attrs>()));
}

constexpr InputDef kX[] = {{.name = "x"}};
constexpr OutputDef kY[] = {{.name = "y"}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, before), CT_ATTRIBUTE(Attrs, after),
                                   CT_ATTRIBUTE(Attrs, value)};

constexpr OpDef k_pad = checked({
    .name = "pad",
    .formula = "y[before + i] = x[i], value elsewhere",
    .inputs = kX,
    .outputs = kY,
    .attributes = kAttributes,
    .infer = pad_infer,
    .cpu = {pad_forward, pad_rule},
    .cuda = {pad_forward, pad_rule},
    .rule = pad_rule,
    .dtypes = kAllTypes,
});

// ---- parts ------------------------------------------------------------------------------------------------

TensorOptions integers_on(const Tensor& x) { return {.dtype = DType::i64, .device = x.device()}; }

Tensor list_on(const Tensor& x, const std::vector<std::int64_t>& list) {
  const Tensor t = Tensor::allocate(list.size(), DType::i64, cpu);
  std::copy(list.begin(), list.end(), t.data<std::int64_t>());
  return t.to(x.device());
}

// x with every run of `inner` elements, of which there are `outer`, `times` times in succession.
Tensor repeat_runs(const Tensor& x, std::int64_t outer, std::int64_t inner, std::int64_t times,
                   const Shape& shape) {
  return x.reshape({outer, 1, inner}).expand({outer, times, inner}).reshape(shape);
}

// y, in memory of its own: these functions give no views.
Tensor apart_from(const Tensor& x, const Tensor& y) {
  return y.impl()->storage == x.impl()->storage ? y.clone() : y;
}

// The number of elements of the axes from `first` up to `end`.
std::int64_t count_of(const Shape& shape, int first, int end) {
  std::int64_t n = 1;
  for (int i = first; i < end; ++i) n *= shape[i];
  return n;
}

// Where each element along a padded axis of n comes from.
std::vector<std::int64_t> sources(Pad mode, std::int64_t n, std::int64_t before, std::int64_t after) {
  const char* const limit =
      mode == Pad::reflect ? "; a mirror has fewer than the axis" : "; it has no more around";
  CT_CHECK(n > 0, ValueError, "pad", "an axis of size 0 has no elements to repeat; pad it with a constant");
  if (mode != Pad::replicate)
    CT_CHECK(std::max(before, after) <= (mode == Pad::reflect ? n - 1 : n), ValueError, "pad", "got ", before,
             " and ", after, " elements around an axis of size ", n, limit);
  std::vector<std::int64_t> list;
  for (std::int64_t i = -before; i < n + after; ++i) {
    const std::int64_t edge = std::clamp<std::int64_t>(i, 0, n - 1);
    list.push_back(mode == Pad::reflect ? 2 * edge - i : mode == Pad::replicate ? edge : (i + n) % n);
  }
  return list;
}

Tensor triangle(const char* op, const Tensor& x, std::int64_t diagonal, bool lower) {
  CT_CHECK(x.dim() >= 2, ShapeError, op, "x is ", describe(x), "; it must have two axes or more");
  const Tensor columns = arange(x.size(-1), integers_on(x)),
               rows = arange(x.size(-2), integers_on(x)).unsqueeze(1);
  const Tensor distance = columns - rows;
  const Scalar zero = x.dtype() == DType::boolean ? Scalar(false) : Scalar(0);
  return where(lower ? le(distance, diagonal) : ge(distance, diagonal), x, zero);
}

}  // namespace

CT_ROOM(rearrange, &k_pad)

// A long axis is reversed as two, so that the indices are few.
static Tensor reversed(const Tensor& x, int axis) {
  constexpr std::int64_t kLong = 1 << 14, kPart = 1 << 7;
  const std::int64_t n = x.dim() == 0 ? 1 : x.shape()[axis];
  const auto select = [&](const Tensor& t, int from, std::int64_t count) {
    return index_select(t, from, (count - 1) - arange(count, integers_on(x)));
  };
  if (n < kLong) return select(x, axis, n);
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.dim(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= x.shape()[i];
  const std::int64_t parts = n / kPart, whole = parts * kPart;
  const Tensor lines = x.reshape({outer, n, inner});
  Tensor y =
      select(select(lines.narrow(1, 0, whole).reshape({outer, parts, kPart, inner}), 1, parts), 2, kPart)
          .reshape({outer, whole, inner});
  if (whole < n) y = concat({select(lines.narrow(1, whole, n - whole), 1, n - whole), y}, 1);
  return y.reshape(x.shape());
}

Tensor flip(const Tensor& x, const Dims& axes) {
  unsigned seen = 0;
  Tensor y = x;
  for (const std::int64_t given : axes) {
    const int axis = wrap_axis("flip", given, x.dim());
    CT_CHECK(!(seen >> axis & 1u), ShapeError, "flip", "axis ", axis, " comes twice in ", axes,
             "; every axis can be named once");
    seen |= 1u << axis;
    y = reversed(y, axis);
  }
  return apart_from(x, y);
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& axes) {
  CT_CHECK(shifts.size() == axes.size(), ShapeError, "roll", "got shifts ", shifts, " for axes ", axes,
           "; there must be one for each");
  Tensor y = x;
  for (int k = 0; k < axes.size(); ++k) {
    const int axis = wrap_axis("roll", axes[k], x.dim());
    const std::int64_t n = x.dim() == 0 ? 0 : x.shape()[axis];
    if (n == 0) continue;
    const std::int64_t shift = (shifts[k] % n + n) % n;
    if (shift != 0) y = concat({y.narrow(axis, n - shift, shift), y.narrow(axis, 0, n - shift)}, axis);
  }
  return apart_from(x, y);
}
Tensor roll(const Tensor& x, Integer shift) {
  return roll(x.reshape({x.numel()}), Dims{shift}, Dims{0}).view(x.shape());
}

Tensor repeat(const Tensor& x, const Dims& repeats) {
  const int added = repeats.size() - x.dim();
  CT_CHECK(added >= 0, ShapeError, "repeat", "got ", repeats, " for ", describe(x),
           "; there must be a number for each axis: tile() takes fewer");
  Shape shape = x.shape();
  for (int i = 0; i < added; ++i) shape.insert(0, 1);
  Tensor y = x.reshape(shape);
  for (int i = 0; i < shape.size(); ++i) {
    CT_CHECK(repeats[i] >= 0, ValueError, "repeat", "got ", repeats, "; numbers must be >= 0");
    if (repeats[i] == 1) continue;
    const std::int64_t outer = count_of(shape, 0, i), inner = count_of(shape, i, shape.size());
    shape[i] *= repeats[i];
    y = repeat_runs(y, outer, inner, repeats[i], shape);
  }
  return apart_from(x, y);
}
Tensor tile(const Tensor& x, const Dims& repeats) {
  Dims all = repeats;
  while (all.size() < x.dim()) all.insert(0, 1);
  return repeat(x, all);
}

Tensor repeat_interleave(const Tensor& x, Integer repeats, Integer axis) {
  CT_CHECK(repeats >= 0, ValueError, "repeat_interleave", "got ", repeats,
           " repeats; the number must be >= 0");
  const int a = wrap_axis("repeat_interleave", axis, x.dim());
  Shape shape = x.dim() == 0 ? Shape{1} : x.shape();
  const std::int64_t outer = count_of(shape, 0, a + 1), inner = count_of(shape, a + 1, shape.size());
  shape[a] *= repeats;
  return apart_from(x, repeat_runs(x, outer, inner, repeats, shape));
}
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, Integer axis) {
  const int a = wrap_axis("repeat_interleave", axis, x.dim());
  const std::int64_t n = x.dim() == 0 ? 1 : x.shape()[a];
  CT_CHECK(repeats.dtype() == DType::i64 || repeats.dtype() == DType::i32, DTypeError, "repeat_interleave",
           "repeats is ", describe(repeats), "; it must be i64 or i32: convert with .to(i64)");
  CT_CHECK(repeats.dim() <= 1 && (repeats.numel() == n || repeats.numel() == 1), ShapeError,
           "repeat_interleave", "repeats is ", describe(repeats), ", axis ", a, " of ", describe(x),
           " has size ", n, "; there must be one number for each, or one for all");
  const std::vector<std::int64_t> times = repeats.to_vector<std::int64_t>();
  std::vector<std::int64_t> list;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t count = times[times.size() == 1 ? 0 : static_cast<std::size_t>(i)];
    CT_CHECK(count >= 0, ValueError, "repeat_interleave", "got ", count, " repeats; numbers must be >= 0");
    list.insert(list.end(), static_cast<std::size_t>(count), i);
  }
  return index_select(x.dim() == 0 ? x.view({1}) : x, a, list_on(x, list));
}

Tensor tril(const Tensor& x, Integer diagonal) { return triangle("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, Integer diagonal) { return triangle("triu", x, diagonal, false); }

Tensor diag_embed(const Tensor& x, Integer offset, Integer axis1, Integer axis2) {
  CT_CHECK(x.dim() >= 1, ShapeError, "diag_embed", "x is ", describe(x),
           "; it must have an axis for the diagonal");
  const int rank = x.dim() + 1, row = wrap_axis("diag_embed", axis1, rank),
            column = wrap_axis("diag_embed", axis2, rank);
  CT_CHECK(row != column, ShapeError, "diag_embed", "both axes are ", row, "; they must be two");
  const std::int64_t n = x.shape().back(), size = n + (offset < 0 ? -offset : +offset);
  Shape flat = x.shape(), apart = x.shape();
  flat.back() = size * size;
  apart.back() = size;
  apart.push_back(size);
  const std::int64_t first = offset >= 0 ? +offset : -offset * size;
  const Tensor none = zeros(flat, {.dtype = x.dtype(), .device = x.device()});
  const Tensor places = arange(n, integers_on(x)) * (size + 1) + first;
  const Tensor y = index_copy(none, -1, places, x).view(apart);
  Dims order;
  for (int i = 0, rest = 0; i < rank; ++i)
    order.push_back(i == row ? rank - 2 : i == column ? rank - 1 : rest++);
  return y.permute(order);
}
Tensor diag(const Tensor& x, Integer offset) {
  CT_CHECK(x.dim() == 1 || x.dim() == 2, ShapeError, "diag", "x is ", describe(x),
           "; it must be a vector or a matrix");
  return x.dim() == 1 ? diag_embed(x, offset) : x.diagonal(offset);
}

Tensor one_hot(const Tensor& indices, Integer classes) {
  std::int64_t count = classes;
  if (count == -1 && indices.numel() > 0) count = max(indices).item<std::int64_t>() + 1;
  CT_CHECK(count > 0 || (count == 0 && indices.numel() == 0), ValueError, "one_hot", "got ", count,
           " classes for ", describe(indices), "; there must be 1 or more, or -1 where there are indices");
  Shape shape = indices.shape();
  shape.push_back(count);
  return scatter(zeros(shape, integers_on(indices)), -1, indices.unsqueeze(-1), 1);
}

std::vector<Tensor> meshgrid(TensorList tensors, Indexing indexing) {
  CT_CHECK(!tensors.empty(), ValueError, "meshgrid", "got no tensors; at least one is needed");
  Shape shape;
  for (const Tensor& t : tensors) {
    CT_CHECK(t.dim() <= 1, ShapeError, "meshgrid", "got ", describe(t),
             "; tensors must be vectors or scalars");
    shape.push_back(t.numel());
  }
  std::vector<Tensor> grids;
  for (int k = 0; k < shape.size(); ++k) {
    Shape ones = Shape::filled(shape.size(), 1);
    ones[k] = shape[k];
    Tensor grid = tensors[static_cast<std::size_t>(k)].reshape(ones).expand(shape);
    grids.push_back(indexing == Indexing::xy && shape.size() >= 2 ? grid.transpose(0, 1) : grid);
  }
  return grids;
}

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, Pad mode, const Scalar& value) {
  const int axes = static_cast<int>(padding.size() / 2);
  CT_CHECK(padding.size() % 2 == 0 && axes <= x.dim(), ValueError, "pad", "got ", padding.size(),
           " numbers for ", describe(x), "; there must be two for each of the last axes");
  check_fits("pad", value, x.dtype());
  Attrs attrs{Shape::filled(x.dim(), 0), Shape::filled(x.dim(), 0), value};
  Tensor y = x;
  for (int k = 0; k < axes; ++k) {
    const int axis = x.dim() - 1 - k;
    const auto at = static_cast<std::size_t>(2 * k);
    const std::int64_t n = x.shape()[axis], before = padding[at], after = padding[at + 1];
    const std::int64_t from = before < 0 ? -before : 0, less = from + (after < 0 ? -after : 0);
    CT_CHECK(less <= n, ValueError, "pad", "got ", before, " and ", after, " elements around axis ", axis,
             " of ", describe(x), "; no more than there are can be taken away");
    if (less > 0) y = y.narrow(axis, from, n - less);
    attrs.before[axis] = std::max<std::int64_t>(before, 0);
    attrs.after[axis] = std::max<std::int64_t>(after, 0);
    if (mode != Pad::constant && attrs.before[axis] + attrs.after[axis] > 0)
      y = index_select(y, axis, list_on(x, sources(mode, n - less, attrs.before[axis], attrs.after[axis])));
  }
  return mode == Pad::constant ? dispatch(k_pad, {y}, attrs) : apart_from(x, y);
}

CT_MEMBER(Tensor, flip, (const Dims& axes) const, axes)
CT_MEMBER(Tensor, roll, (Integer shift) const, shift)
CT_MEMBER(Tensor, roll, (const Dims& shifts, const Dims& axes) const, shifts, axes)
CT_MEMBER(Tensor, repeat, (const Dims& repeats) const, repeats)
CT_MEMBER(Tensor, repeat_interleave, (Integer repeats, Integer axis) const, repeats, axis)
CT_MEMBER(Tensor, tril, (Integer diagonal) const, diagonal)
CT_MEMBER(Tensor, triu, (Integer diagonal) const, diagonal)
CT_MEMBER(Tensor, diag, (Integer offset) const, offset)

}  // namespace ct
