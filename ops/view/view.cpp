#include <cotangent/ops/view/view.h>

#include <algorithm>
#include <array>
#include <iterator>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/device/index_error.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/rules_internal.h>
#include <cotangent/ops/view/view_defs_internal.h>

// The members of Tensor, and how each one's result lies in memory. Gradients are in
// view_defs.cpp.

namespace ct {
namespace {
// Checks for members that name one of x's axes, `purpose` saying what for (" to split").
void check_has_axes(const char* op, const Tensor& x, std::int64_t axis, const char* purpose) {
  CT_CHECK(x.dim() > 0, ShapeError, op, "a scalar has no axis ", axis, purpose, "; unsqueeze(0) makes one");
}
}  // namespace

Shape resolve_shape(const char* op, const Shape& shape, std::int64_t numel) {
  int unknown = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      CT_CHECK(unknown < 0, ShapeError, op, "shape ", shape,
               " has more than one -1; one size can be inferred");
      unknown = i;
      continue;
    }
    CT_CHECK(shape[i] >= 0, ShapeError, op, "shape ", shape,
             " has a negative size; sizes must be >= 0, or -1");
    CT_CHECK(!__builtin_mul_overflow(known, shape[i], &known), ShapeError, op, "shape ", shape,
             " has more than 2^63 elements; make it smaller");
  }
  Shape resolved = shape;
  if (unknown >= 0) {
    CT_CHECK(known > 0, ShapeError, op, "the -1 in shape ", shape,
             " could be any size, since another size is 0; name it");
    CT_CHECK(numel % known == 0, ShapeError, op, "shape ", shape, " does not divide the ", numel,
             " elements of the tensor; the other sizes must");
    resolved[unknown] = numel / known;
  } else {
    CT_CHECK(known == numel, ShapeError, op, "shape ", shape, " has ", known, " elements, the tensor ", numel,
             "; they must be as many");
  }
  return resolved;
}

bool view_strides(const Shape& shape, const Strides& strides, const Shape& wanted, Strides* out) {
  *out = contiguous_strides(wanted);
  if (numel(shape) == 0) return true;
  int w = wanted.size() - 1;
  for (int i = shape.size() - 1; i >= 0;) {
    if (shape[i] == 1) {
      --i;
      continue;
    }
    // A run of axes that lie in memory as one axis of `length` steps ...
    const std::int64_t step = strides[i];
    std::int64_t length = shape[i--];
    for (; i >= 0 && (shape[i] == 1 || strides[i] == length * step); --i) length *= shape[i];
    // ... must be divided among wanted axes without a rest.
    std::int64_t filled = 1;
    for (; w >= 0 && (filled < length || wanted[w] == 1); --w) {
      (*out)[w] = filled * step;
      filled *= wanted[w];
    }
    if (filled != length) return false;
  }
  return true;  // what is left of `wanted` are ones
}

// ---- shape rules ------------------------------------------------------------------------------------------

namespace view {

void reshape_infer(Infer& i) {
  const Tensor& x = i.in(0);
  const Shape shape = resolve_shape("view", i.attrs<ShapeAttrs>().shape, x.numel());
  Strides strides;
  if (x.is_contiguous()) {
    strides = contiguous_strides(shape);
  } else {
    CT_CHECK(view_strides(x.shape(), x.strides(), shape, &strides), ShapeError, "view", "the layout of ",
             describe(x), " with strides ", x.strides(), " allows no view of shape ", shape,
             "; use reshape(), which copies where it must");
  }
  i.output_strided(shape, strides, x.storage_offset());
}

void permute_infer(Infer& i) {
  const Tensor& x = i.in(0);
  const Dims& axes = i.attrs<PermuteAttrs>().axes;
  CT_CHECK(axes.size() == x.dim(), ShapeError, "permute", "got ", axes.size(), " axes ", axes, " for ",
           describe(x), "; every axis must be named once");
  Shape shape = x.shape();
  Strides strides = x.strides();
  unsigned seen = 0;
  for (int k = 0; k < axes.size(); ++k) {
    const int axis = wrap_axis("permute", axes[k], x.dim());
    CT_CHECK(!(seen >> axis & 1u), ShapeError, "permute", "axis ", axis, " comes twice in ", axes,
             "; every axis must be named once");
    seen |= 1u << axis;
    shape[k] = x.shape()[axis];
    strides[k] = x.strides()[axis];
  }
  i.output_strided(shape, strides, x.storage_offset());
}

void slice_infer(Infer& i) {
  const Tensor& x = i.in(0);
  const SliceAttrs& a = i.attrs<SliceAttrs>();
  check_has_axes("slice", x, a.axis, " to take a slice of");
  CT_CHECK(a.step > 0, ValueError, "slice", "step is ", a.step, "; it must be > 0");
  const int axis = wrap_axis("slice", a.axis, x.dim());
  const std::int64_t n = x.shape()[axis];
  const auto clamped = [n](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + n : at, 0, n); };
  const std::int64_t start = clamped(a.start), stop = clamped(a.stop);
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[axis] = stop > start ? (stop - start - 1) / a.step + 1 : 0;
  if (shape[axis] > 1) strides[axis] *= a.step;
  i.output_strided(shape, strides, x.storage_offset() + start * x.strides()[axis]);
}

void select_infer(Infer& i) {
  const Tensor& x = i.in(0);
  const SelectAttrs& a = i.attrs<SelectAttrs>();
  CT_CHECK(x.dim() > 0, ShapeError, "select", "a scalar has no axis ", a.axis,
           " to select from; item() reads its value");
  const int axis = wrap_axis("select", a.axis, x.dim());
  const std::int64_t n = x.shape()[axis];
  if (a.index < -n || a.index >= n) throw_index_error("select", IndexKind::index, a.index, n);
  Shape shape = x.shape();
  Strides strides = x.strides();
  const std::int64_t offset = (a.index < 0 ? a.index + n : a.index) * strides[axis];
  shape.erase(axis);
  strides.erase(axis);
  i.output_strided(shape, strides, x.storage_offset() + offset);
}

void unbind_infer(Infer& i) {
  const Tensor& x = i.in(0);
  const std::int64_t given = i.attrs<UnbindAttrs>().axis;
  check_has_axes("unbind", x, given, " to take apart");
  const int axis = wrap_axis("unbind", given, x.dim());
  const std::int64_t n = x.shape()[axis], step = x.strides()[axis];
  CT_CHECK(n >= 1 && n <= kMaxOutputs, ShapeError, "unbind", "axis ", axis, " of ", describe(x), " has size ",
           n, "; the op has 1 to ", kMaxOutputs, " outputs: Tensor::unbind() takes any axis apart");
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(axis);
  strides.erase(axis);
  for (std::int64_t k = 0; k < n; ++k) i.output_strided(shape, strides, x.storage_offset() + k * step);
}

void expand_infer(Infer& i) {
  const Tensor& x = i.in(0);
  Shape shape = i.attrs<ShapeAttrs>().shape;
  const int added = shape.size() - x.dim();
  CT_CHECK(added >= 0, ShapeError, "expand", describe(x), " can't be expanded to the lower rank of ", shape,
           "; name at least as many axes as it has");
  for (int k = 0; k < shape.size(); ++k) {
    if (k < added) {
      CT_CHECK(shape[k] >= 0, ShapeError, "expand", "the new axis ", k, " of ", shape,
               " has no size to keep; give a size >= 0");
      continue;
    }
    const std::int64_t have = x.shape()[k - added];
    if (shape[k] == -1) shape[k] = have;
    CT_CHECK(shape[k] == have || (have == 1 && shape[k] >= 0), ShapeError, "expand", describe(x),
             " can't be expanded to ", shape, ": axis ", k - added, " has size ", have,
             "; only axes of size 1 can be repeated");
  }
  check_sizes("expand", shape);
  i.output_strided(shape, broadcast_strides(x.shape(), x.strides(), shape), x.storage_offset());
}

void squeeze_infer(Infer& i) {
  const Tensor& x = i.in(0);
  const unsigned mask = i.attrs<SqueezeAttrs>().mask;
  Shape shape;
  Strides strides;
  for (int k = 0; k < x.dim(); ++k) {
    if ((mask >> k & 1u) && x.shape()[k] == 1) continue;
    shape.push_back(x.shape()[k]);
    strides.push_back(x.strides()[k]);
  }
  i.output_strided(shape, strides, x.storage_offset());
}

void unsqueeze_infer(Infer& i) {
  const Tensor& x = i.in(0);
  rules::check_room_for_axis("unsqueeze", "x", x);
  const int axis = wrap_axis("unsqueeze", i.attrs<UnsqueezeAttrs>().axis, x.dim() + 1);
  Shape shape = x.shape();
  Strides strides = x.strides();
  const std::int64_t stride = axis < x.dim() ? shape[axis] * strides[axis] : 1;
  shape.insert(axis, 1);
  strides.insert(axis, stride);
  i.output_strided(shape, strides, x.storage_offset());
}

void diagonal_infer(Infer& i) {
  const Tensor& x = i.in(0);
  const DiagonalAttrs& a = i.attrs<DiagonalAttrs>();
  CT_CHECK(x.dim() >= 2, ShapeError, "diagonal", "x is ", describe(x), "; it must have two axes or more");
  const int row = wrap_axis("diagonal", a.axis1, x.dim()), column = wrap_axis("diagonal", a.axis2, x.dim());
  CT_CHECK(row != column, ShapeError, "diagonal", "both axes are ", row, "; they must be two");
  const std::int64_t rows = x.shape()[row], columns = x.shape()[column];
  const std::int64_t length = std::max<std::int64_t>(
      0, a.offset >= 0 ? std::min(rows, columns - a.offset) : std::min(rows + a.offset, columns));
  std::int64_t first = x.storage_offset();
  if (length > 0) first += a.offset >= 0 ? a.offset * x.strides()[column] : -a.offset * x.strides()[row];
  Shape shape;
  Strides strides;
  for (int k = 0; k < x.dim(); ++k) {
    if (k == row || k == column) continue;
    shape.push_back(x.shape()[k]);
    strides.push_back(x.strides()[k]);
  }
  shape.push_back(length);
  strides.push_back(x.strides()[row] + x.strides()[column]);
  i.output_strided(shape, strides, first);
}

void unfold_infer(Infer& i) {
  const Tensor& x = i.in(0);
  const UnfoldAttrs& a = i.attrs<UnfoldAttrs>();
  check_has_axes("unfold", x, a.axis, " to unfold");
  rules::check_room_for_axis("unfold", "x", x);
  const int axis = wrap_axis("unfold", a.axis, x.dim());
  const std::int64_t n = x.shape()[axis], stride = x.strides()[axis];
  CT_CHECK(a.size >= 0 && a.size <= n, ValueError, "unfold", "the size of a window is ", a.size, ", axis ",
           axis, " of ", describe(x), " has ", n, "; it must lie in [0, ", n, "]");
  CT_CHECK(a.step > 0, ValueError, "unfold", "step is ", a.step, "; it must be > 0");
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[axis] = (n - a.size) / a.step + 1;
  if (shape[axis] > 1) strides[axis] *= a.step;
  shape.push_back(a.size);
  strides.push_back(stride);
  i.output_strided(shape, strides, x.storage_offset());
}

}  // namespace view

// ---- members of Tensor ------------------------------------------------------------------------------------

using namespace view;

Tensor Tensor::view(const Shape& shape) const { return dispatch(k_view, {*this}, ShapeAttrs{shape}); }

Tensor Tensor::reshape(const Shape& shape) const {
  const Shape resolved = resolve_shape("reshape", shape, numel());
  Strides strides;
  if (is_contiguous() || view_strides(this->shape(), this->strides(), resolved, &strides))
    return view(resolved);
  return contiguous().view(resolved);
}

Tensor Tensor::flatten(Integer first_axis, Integer last_axis) const {
  const int first = wrap_axis("flatten", first_axis, dim()), last = wrap_axis("flatten", last_axis, dim());
  CT_CHECK(first <= last, ShapeError, "flatten", "axis ", first_axis, " comes after axis ", last_axis, " in ",
           describe(*this), "; the first axis must not be behind the last one");
  Shape merged;
  for (int i = 0; i < first; ++i) merged.push_back(shape()[i]);
  std::int64_t product = 1;
  for (int i = first; i <= last && i < dim(); ++i) product *= shape()[i];
  merged.push_back(product);
  for (int i = last + 1; i < dim(); ++i) merged.push_back(shape()[i]);
  return reshape(merged);
}

Tensor Tensor::transpose(Integer axis0, Integer axis1) const {
  const int a = wrap_axis("transpose", axis0, dim()), b = wrap_axis("transpose", axis1, dim());
  PermuteAttrs attrs;
  for (int i = 0; i < dim(); ++i) attrs.axes.push_back(i == a ? b : i == b ? a : i);
  return dispatch(k_permute, {*this}, attrs);
}

Tensor Tensor::t() const {
  CT_CHECK(dim() <= 2, ShapeError, "t", "got ", describe(*this),
           "; t() is for rank 2 and below: name the axes with transpose() or permute()");
  return dim() < 2 ? *this : transpose(0, 1);
}

Tensor Tensor::permute(const Dims& axes) const { return dispatch(k_permute, {*this}, PermuteAttrs{axes}); }

Tensor Tensor::narrow(Integer axis, Integer start, Integer length) const {
  check_has_axes("narrow", *this, axis, " to narrow");
  const int wrapped = wrap_axis("narrow", axis, dim());
  const std::int64_t n = shape()[wrapped];
  const std::int64_t from = start < 0 ? start + n : +start;
  CT_CHECK(from >= 0 && length >= 0 && from <= n && length <= n - from, IndexError, "narrow", "start ", start,
           " and length ", length, " reach outside axis ", axis, " of ", describe(*this), ", which has size ",
           n, "; the part must lie within it");
  return dispatch(k_slice, {*this}, SliceAttrs{wrapped, from, from + length, 1});
}

Tensor Tensor::slice(Integer axis, Integer start, Integer stop, Integer step) const {
  return dispatch(k_slice, {*this}, SliceAttrs{axis, start, stop, step});
}

Tensor Tensor::select(Integer axis, Integer index) const {
  return dispatch(k_select, {*this}, SelectAttrs{axis, index});
}

Tensor Tensor::expand(const Shape& shape) const { return dispatch(k_expand, {*this}, ShapeAttrs{shape}); }

Tensor Tensor::squeeze() const { return dispatch(k_squeeze, {*this}, SqueezeAttrs{~0u}); }

Tensor Tensor::squeeze(Integer axis) const {
  return dispatch(k_squeeze, {*this}, SqueezeAttrs{1u << wrap_axis("squeeze", axis, dim())});
}

Tensor Tensor::unsqueeze(Integer axis) const { return dispatch(k_unsqueeze, {*this}, UnsqueezeAttrs{axis}); }

Tensor Tensor::movedim(Integer source, Integer destination) const {
  const int from = wrap_axis("movedim", source, dim()), to = wrap_axis("movedim", destination, dim());
  if (dim() == 0) return view({});
  PermuteAttrs attrs;
  for (int i = 0; i < dim(); ++i)
    if (i != from) attrs.axes.push_back(i);
  attrs.axes.insert(to, from);
  return dispatch(k_permute, {*this}, attrs);
}

Tensor Tensor::unflatten(Integer axis, const Shape& sizes) const {
  CT_CHECK(dim() > 0 && sizes.size() > 0, ShapeError, "unflatten", "got ", sizes, " for an axis of ",
           describe(*this), "; pass at least one size, and a tensor with axes");
  const int at = wrap_axis("unflatten", axis, dim());
  Shape wanted(shape().begin(), static_cast<std::size_t>(at));
  for (const std::int64_t size : resolve_shape("unflatten", sizes, shape()[at])) wanted.push_back(size);
  for (int i = at + 1; i < dim(); ++i) wanted.push_back(shape()[i]);
  return reshape(wanted);
}

Tensor Tensor::diagonal(Integer offset, Integer axis1, Integer axis2) const {
  return dispatch(k_diagonal, {*this}, DiagonalAttrs{offset, axis1, axis2});
}

Tensor Tensor::unfold(Integer axis, Integer size, Integer step) const {
  return dispatch(k_unfold, {*this}, UnfoldAttrs{axis, size, step});
}

std::vector<Tensor> Tensor::unbind(Integer axis) const {
  check_has_axes("unbind", *this, axis, " to take apart");
  const int wrapped = wrap_axis("unbind", axis, dim());
  const auto n = static_cast<std::size_t>(shape()[wrapped]);
  std::vector<Tensor> parts;
  if (n >= 1 && n <= kMaxOutputs) {
    // One node for all parts, whose gradients are then written once each into one tensor.
    std::array<Tensor, kMaxOutputs> outputs;
    const TensorRef input = this;
    dispatch(k_unbind, {&input, 1}, UnbindAttrs{wrapped}, outputs);
    parts.assign(std::make_move_iterator(outputs.begin()),
                 std::make_move_iterator(outputs.begin() + static_cast<std::ptrdiff_t>(n)));
    return parts;
  }
  detail::reserve("unbind", parts, static_cast<std::int64_t>(n));
  for (std::size_t i = 0; i < n; ++i) parts.push_back(select(wrapped, static_cast<std::int64_t>(i)));
  return parts;
}

std::vector<Tensor> Tensor::split(Integer size, Integer axis) const {
  check_has_axes("split", *this, axis, " to split");
  const int wrapped = wrap_axis("split", axis, dim());
  const std::int64_t n = shape()[wrapped];
  CT_CHECK(size > 0 || (size == 0 && n == 0), ValueError, "split", "the size of a piece is ", size,
           "; it must be > 0");
  std::vector<Tensor> parts;
  detail::reserve("split", parts, n == 0 ? 1 : (n - 1) / size + 1);
  for (std::int64_t at = 0; at < n; at += size)
    parts.push_back(narrow(wrapped, at, std::min<std::int64_t>(size, n - at)));
  if (n == 0) parts.push_back(narrow(wrapped, 0, 0));
  return parts;
}

std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& sizes, Integer axis) const {
  check_has_axes("split", *this, axis, " to split");
  const int wrapped = wrap_axis("split", axis, dim());
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    CT_CHECK(size >= 0, ValueError, "split", "the size of a piece is ", size, "; it must be >= 0");
    sum = size > INT64_MAX - sum ? INT64_MAX : sum + size;  // more than any axis has, without overflow
  }
  CT_CHECK(sum == shape()[wrapped], ShapeError, "split", "the pieces have ", sum, " elements along axis ",
           axis, " of ", describe(*this), "; their sizes must add up to ", shape()[wrapped]);
  std::vector<Tensor> parts;
  parts.reserve(sizes.size());
  std::int64_t at = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(narrow(wrapped, at, size));
    at += size;
  }
  return parts;
}

std::vector<Tensor> Tensor::chunk(Integer chunks, Integer axis) const {
  check_has_axes("chunk", *this, axis, " to divide");
  CT_CHECK(chunks > 0, ValueError, "chunk", "got ", chunks, " chunks; there must be at least 1");
  const std::int64_t n = size(axis);
  return split(std::max<std::int64_t>(1, n / chunks + (n % chunks != 0)), axis);
}

}  // namespace ct
