#include <cotangent/ops/view/view_defs_internal.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/memory.h>
#include <cotangent/core/registry.h>
#include <cotangent/ops/concat/concat.h>
#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/rules_internal.h>

// Gradients of views, their references and samples. A view moves nothing, so its gradient only says where
// each cotangent belongs; the formulas are derived in README.md.

namespace ct::views {
namespace {

// ---- gradients --------------------------------------------------------------------------------------------

// The view, squeeze, unsqueeze: the same elements in the same order.
void reshape_backward(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, b.grad().reshape(b.in_meta(0).shape));
}

void permute_backward(const Backward& b) {
  if (!b.needs(0)) return;
  const Dims& axes = b.attrs<PermuteAttrs>().axes;
  Dims inverse = axes;
  for (int k = 0; k < axes.size(); ++k)
    inverse[static_cast<int>(axes[k] < 0 ? axes[k] + axes.size() : axes[k])] = k;
  b.set_grad_in(0, b.grad().permute(inverse));
}

// slice, select and unbind: each cotangent at its place, zeros elsewhere. Pieces of one tensor that are ops
// of their own (split) are added one after the other into the same gradient, so that n pieces cost one pass
// and not n.
void place_backward(const Backward& b, InferFn infer) {
  if (!b.needs(0)) return;
  Tensor& whole = b.grad_in(0);
  const Tensor* inputs[] = {&whole};
  Infer layout(b.op, inputs, b.attrs_view);
  infer(layout);
  std::int64_t covered = 0;
  for (const Tensor& g : b.grads) covered += g.defined() ? g.numel() : 0;
  if (!b.accumulate(0) && covered != whole.numel())
    zero_bytes(whole.raw_data(), whole.device(), static_cast<std::size_t>(whole.nbytes()));
  for (int k = 0; k < layout.output_count(); ++k) {
    if (!b.grad(k).defined()) continue;
    const Infer::Output& at = layout.out(k);
    Tensor part = Tensor::from_storage(whole.impl()->storage, at.shape, at.strides, at.offset, whole.dtype());
    if (b.accumulate(0)) {
      detail::engine_ops.add(part, b.grad(k), true);
    } else {
      copy_kernel(part, b.grad(k));
    }
  }
}
void slice_backward(const Backward& b) { place_backward(b, slice_infer); }
void select_backward(const Backward& b) { place_backward(b, select_infer); }

// The tensor that all cotangents together are views of, as a kernel may have laid them out; undefined if they
// are not the neighbouring parts of one.
Tensor joined(const Backward& b) {
  const Tensor& first = b.grad(0);
  const auto n = static_cast<std::int64_t>(b.grads.size());
  if (!first.defined()) return {};
  std::int64_t step = 0;
  for (int k = 1; k < n; ++k) {
    const Tensor& g = b.grad(k);
    if (!g.defined() || !(g.impl()->storage == first.impl()->storage) || !(g.strides() == first.strides()))
      return {};
    const std::int64_t distance = g.storage_offset() - first.storage_offset();
    if (k == 1) step = distance;
    if (step <= 0 || distance != k * step) return {};
  }
  Strides strides = first.strides();
  const std::int64_t axis = b.attrs<UnbindAttrs>().axis;
  strides.insert(static_cast<int>(axis < 0 ? axis + b.in_meta(0).shape.size() : axis), n == 1 ? 1 : step);
  return Tensor::from_storage(first.impl()->storage, b.in_meta(0).shape, strides, first.storage_offset(),
                              first.dtype());
}
void unbind_backward(const Backward& b) {
  if (!b.needs(0)) return;
  if (!b.accumulate(0)) {
    if (Tensor whole = joined(b); whole.defined()) return b.set_grad_in(0, std::move(whole));
  }
  place_backward(b, unbind_infer);
}

void expand_backward(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, sum_to(b.grad(), b.in_meta(0).shape));
}

// ---- rules: those of view, permute and their kin are their gradients, which are views themselves ---------

// slice: the cotangents apart by the step, and zeros around them.
void slice_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const SliceAttrs& a = b.attrs<SliceAttrs>();
  const Shape& shape = b.in_meta(0).shape;
  const int axis = wrap_axis("slice", a.axis, shape.size());
  const std::int64_t n = shape[axis], count = b.grad().shape()[axis];
  if (count == 0) return b.set_grad_in(0, detail::engine_ops.zeros(b.in_meta(0)));
  const std::int64_t start = std::clamp<std::int64_t>(a.start < 0 ? a.start + n : a.start, 0, n);
  Tensor apart = b.grad();
  if (a.step > 1) {
    Shape flat = apart.shape();
    flat[axis] = count * a.step;
    apart = rules::padded(apart.unsqueeze(axis + 1), axis + 1, 0, a.step - 1).reshape(flat);
  }
  const std::int64_t length = std::min(apart.shape()[axis], n - start);
  b.set_grad_in(0, rules::padded(apart.narrow(axis, 0, length), axis, start, n - start - length));
}

void select_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const SelectAttrs& a = b.attrs<SelectAttrs>();
  const Shape& shape = b.in_meta(0).shape;
  const int axis = wrap_axis("select", a.axis, shape.size());
  const std::int64_t n = shape[axis], at = a.index < 0 ? a.index + n : a.index;
  b.set_grad_in(0, rules::padded(b.grad().unsqueeze(axis), axis, at, n - at - 1));
}

void unbind_rule(const Backward& b) {
  if (!b.needs(0)) return;
  TensorMeta part = b.in_meta(0);
  const int axis = wrap_axis("unbind", b.attrs<UnbindAttrs>().axis, part.shape.size());
  part.shape.erase(axis);
  std::vector<Tensor> parts;
  for (const Tensor& g : b.grads) parts.push_back(g.defined() ? g : detail::engine_ops.zeros(part));
  b.set_grad_in(0, stack(parts, axis));
}

void expand_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, rules::unbroadcast(b.grad(), b.in_meta(0).shape));
}

// ---- records --------------------------------------------------------------------------------------------

constexpr InputDef kX[] = {{.name = "x"}};
constexpr InputDef kXAccumulates[] = {{.name = "x", .accumulates = true}};
constexpr OutputDef kY[] = {{.name = "y"}};
constexpr OutputDef kParts[] = {{.name = "parts", .rest = true}};
constexpr AttrDef kShapeAttributes[] = {CT_ATTRIBUTE(ShapeAttrs, shape)};
constexpr AttrDef kPermuteAttributes[] = {CT_ATTRIBUTE(PermuteAttrs, axes)};
constexpr AttrDef kSliceAttributes[] = {CT_ATTRIBUTE(SliceAttrs, axis), CT_ATTRIBUTE(SliceAttrs, start),
                                        CT_ATTRIBUTE(SliceAttrs, stop), CT_ATTRIBUTE(SliceAttrs, step)};
constexpr AttrDef kSelectAttributes[] = {CT_ATTRIBUTE(SelectAttrs, axis), CT_ATTRIBUTE(SelectAttrs, index)};
constexpr AttrDef kUnbindAttributes[] = {CT_ATTRIBUTE(UnbindAttrs, axis)};
constexpr AttrDef kSqueezeAttributes[] = {CT_ATTRIBUTE(SqueezeAttrs, mask)};
constexpr AttrDef kUnsqueezeAttributes[] = {CT_ATTRIBUTE(UnsqueezeAttrs, axis)};

// ---- references: by the index of each element ------------------------------------------------------------

// Calls f(index) for every index of `shape` in row-major order.
template <class F>
void for_each_index(const Shape& shape, F&& f) {
  const std::int64_t n = numel(shape);
  for (std::int64_t at = 0; at < n; ++at) {
    Dims index = shape;
    std::int64_t rest = at;
    for (int i = shape.size() - 1; i >= 0; --i) {
      index[i] = rest % shape[i];
      rest /= shape[i];
    }
    f(at, index);
  }
}

// y[index] = x[from(index)]
template <class From>
std::vector<Tensor> gather(const Tensor& x, const Shape& shape, From&& from) {
  Tensor y = Tensor::allocate(shape, f64, cpu);
  for_each_index(shape, [&](std::int64_t at, const Dims& index) {
    const Dims source = from(index);
    std::int64_t offset = 0;
    for (int i = 0; i < x.dim(); ++i) offset += source[i] * x.strides()[i];
    y.data<double>()[at] = x.data<double>()[offset];
  });
  return {y};
}

template <class A>
const A& as(AttrsView attrs) {
  return *static_cast<const A*>(attrs.data);
}

// The elements in row-major order, under another shape.
std::vector<Tensor> same_order(const Tensor& x, const Shape& shape) {
  std::vector<Tensor> flat = gather(x, x.shape(), [](const Dims& index) { return index; });
  return {Tensor::from_storage(flat[0].impl()->storage, shape, contiguous_strides(shape), 0, f64)};
}

std::vector<Tensor> reshape_reference(std::span<const Tensor> in, AttrsView attrs) {
  Shape shape = as<ShapeAttrs>(attrs).shape;
  std::int64_t known = 1;
  for (const std::int64_t s : shape) known *= s < 0 ? 1 : s;
  for (std::int64_t& s : shape)
    if (s < 0) s = in[0].numel() / known;
  return same_order(in[0], shape);
}

std::vector<Tensor> squeeze_reference(std::span<const Tensor> in, AttrsView attrs) {
  Shape shape;
  for (int i = 0; i < in[0].dim(); ++i)
    if (in[0].shape()[i] != 1 || !(as<SqueezeAttrs>(attrs).mask >> i & 1u)) shape.push_back(in[0].shape()[i]);
  return same_order(in[0], shape);
}

std::vector<Tensor> unsqueeze_reference(std::span<const Tensor> in, AttrsView attrs) {
  Shape shape = in[0].shape();
  const std::int64_t axis = as<UnsqueezeAttrs>(attrs).axis;
  shape.insert(static_cast<int>(axis < 0 ? axis + shape.size() + 1 : axis), 1);
  return same_order(in[0], shape);
}

std::vector<Tensor> permute_reference(std::span<const Tensor> in, AttrsView attrs) {
  const int rank = in[0].dim();
  Dims axes = as<PermuteAttrs>(attrs).axes;
  Shape shape = axes;
  for (int k = 0; k < rank; ++k) {
    axes[k] = (axes[k] + rank) % rank;
    shape[k] = in[0].shape()[static_cast<int>(axes[k])];
  }
  return gather(in[0], shape, [&](const Dims& index) {
    Dims source = index;
    for (int k = 0; k < rank; ++k) source[static_cast<int>(axes[k])] = index[k];
    return source;
  });
}

std::vector<Tensor> slice_reference(std::span<const Tensor> in, AttrsView attrs) {
  const SliceAttrs& a = as<SliceAttrs>(attrs);
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + in[0].dim() : a.axis);
  const std::int64_t n = in[0].shape()[axis];
  std::vector<std::int64_t> taken;  // what Python's x[start:stop:step] takes
  const std::int64_t start = std::max<std::int64_t>(0, a.start < 0 ? a.start + n : a.start);
  const std::int64_t stop = std::min(n, a.stop < 0 ? a.stop + n : a.stop);
  for (std::int64_t i = start; i < stop; i += a.step) taken.push_back(i);
  Shape shape = in[0].shape();
  shape[axis] = static_cast<std::int64_t>(taken.size());
  return gather(in[0], shape, [&](Dims index) {
    index[axis] = taken[static_cast<std::size_t>(index[axis])];
    return index;
  });
}

std::vector<Tensor> select_reference(std::span<const Tensor> in, AttrsView attrs) {
  const SelectAttrs& a = as<SelectAttrs>(attrs);
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + in[0].dim() : a.axis);
  Shape shape = in[0].shape();
  const std::int64_t at = a.index < 0 ? a.index + shape[axis] : a.index;
  shape.erase(axis);
  return gather(in[0], shape, [&](Dims index) {
    index.insert(axis, at);
    return index;
  });
}

std::vector<Tensor> unbind_reference(std::span<const Tensor> in, AttrsView attrs) {
  const std::int64_t axis = as<UnbindAttrs>(attrs).axis;
  const std::int64_t n = in[0].shape()[static_cast<int>(axis < 0 ? axis + in[0].dim() : axis)];
  std::vector<Tensor> parts;
  for (std::int64_t k = 0; k < n; ++k)
    parts.push_back(select_reference(in, AnyAttrs(SelectAttrs{axis, k}).view())[0]);
  return parts;
}

std::vector<Tensor> expand_reference(std::span<const Tensor> in, AttrsView attrs) {
  const Tensor& x = in[0];
  Shape shape = as<ShapeAttrs>(attrs).shape;
  const int added = shape.size() - x.dim();
  for (int k = added; k < shape.size(); ++k)
    if (shape[k] < 0) shape[k] = x.shape()[k - added];
  return gather(x, shape, [&](const Dims& index) {
    Dims source = x.shape();
    for (int i = 0; i < x.dim(); ++i) source[i] = x.shape()[i] == 1 ? 0 : index[i + added];
    return source;
  });
}

// ---- samples ----------------------------------------------------------------------------------------------

// Views of any layout exist for single axes only, so that the suite may pass strided inputs everywhere.
std::vector<Sample> view_samples(SampleMaker& make) {
  return {
      {{make.normal({})}, ShapeAttrs{{1, 1}}, "scalar to matrix"},
      {{make.normal({1})}, ShapeAttrs{{}}, "to a scalar"},
      {{make.normal({12})}, ShapeAttrs{{3, 4}}, "split an axis"},
      {{make.normal({30})}, ShapeAttrs{{2, -1, 5}}, "inferred size"},
      {{make.normal({6, 5})}, ShapeAttrs{{6, 1, 5}}, "axis of size 1"},
      {{make.normal({6, 4})}, ShapeAttrs{{2, 3, 4}}, "split the first of two"},
      {{make.normal({0, 3})}, ShapeAttrs{{3, 0, 2}}, "empty"},
      {{make.normal({1, 2, 1})}, ShapeAttrs{{2}}, "drop ones"},
  };
}
std::vector<ErrorSample> view_errors(SampleMaker& make) {
  return {{{make.normal({2, 3})}, ShapeAttrs{{4}}, "has 4 elements, the tensor 6"},
          {{make.normal({2, 3})}, ShapeAttrs{{4, -1}}, "does not divide the 6 elements"},
          {{make.normal({2, 3})}, ShapeAttrs{{-1, -1}}, "more than one -1"},
          {{make.normal({2, 3})}, ShapeAttrs{{-2, -3}}, "negative size"},
          {{make.normal({0, 3})}, ShapeAttrs{{0, -1}}, "could be any size"},
          {{make.normal({2, 3}).permute({1, 0})}, ShapeAttrs{{6}}, "use reshape()"}};
}

std::vector<Sample> permute_samples(SampleMaker& make) {
  return {{{make.normal({})}, PermuteAttrs{{}}, "scalar"},
          {{make.normal({5})}, PermuteAttrs{{0}}, "vector"},
          {{make.normal({5, 3})}, PermuteAttrs{{1, 0}}, "matrix"},
          {{make.normal({2, 3, 5})}, PermuteAttrs{{2, 0, 1}}, "a cycle"},
          {{make.normal({2, 3, 5})}, PermuteAttrs{{-1, -3, 1}}, "negative axes"},
          {{make.normal({2, 0, 3})}, PermuteAttrs{{1, 2, 0}}, "empty"},
          {{make.normal({2, 1, 3, 1, 2, 1, 1, 2})}, PermuteAttrs{{7, 2, 5, 0, 1, 6, 3, 4}}, "rank 8"}};
}
std::vector<ErrorSample> permute_errors(SampleMaker& make) {
  return {{{make.normal({2, 3})}, PermuteAttrs{{0}}, "every axis must be named once"},
          {{make.normal({2, 3})}, PermuteAttrs{{1, -1}}, "comes twice"},
          {{make.normal({2, 3})}, PermuteAttrs{{0, 2}}, "axis 2 is out of range"}};
}

std::vector<Sample> slice_samples(SampleMaker& make) {
  return {{{make.normal({7})}, SliceAttrs{0, 2, 5, 1}, "middle"},
          {{make.normal({7})}, SliceAttrs{0, 0, INT64_MAX, 3}, "every third"},
          {{make.normal({3, 8})}, SliceAttrs{-1, 1, -1, 2}, "steps along the last axis"},
          {{make.normal({5, 3})}, SliceAttrs{0, -2, INT64_MAX, 1}, "from the end"},
          {{make.normal({5, 3})}, SliceAttrs{0, 0, 5, 1}, "everything"},
          {{make.normal({5, 3})}, SliceAttrs{1, 2, 1, 1}, "nothing"},
          {{make.normal({5, 3})}, SliceAttrs{0, -100, 100, 7}, "clamped, one left"},
          {{make.normal({0, 3})}, SliceAttrs{0, 0, 2, 1}, "empty"},
          {{make.normal({2, 5, 3})}, SliceAttrs{1, 1, 4, 2}, "inner axis"}};
}
std::vector<ErrorSample> slice_errors(SampleMaker& make) {
  return {{{make.normal({3})}, SliceAttrs{0, 0, 3, 0}, "step is 0"},
          {{make.normal({3})}, SliceAttrs{1, 0, 3, 1}, "axis 1 is out of range"},
          {{make.normal({})}, SliceAttrs{0, 0, 1, 1}, "a scalar has no axis"}};
}

std::vector<Sample> select_samples(SampleMaker& make) {
  return {{{make.normal({7})}, SelectAttrs{0, 3}, "element"},
          {{make.normal({3, 5})}, SelectAttrs{0, -1}, "last row"},
          {{make.normal({3, 5})}, SelectAttrs{-1, 0}, "first column"},
          {{make.normal({2, 3, 4})}, SelectAttrs{1, 2}, "inner axis"},
          {{make.normal({1, 0})}, SelectAttrs{0, 0}, "empty"},
          {{make.normal({1})}, SelectAttrs{0, 0}, "single"}};
}
std::vector<ErrorSample> select_errors(SampleMaker& make) {
  return {{{make.normal({3})}, SelectAttrs{0, 3}, "index 3"},
          {{make.normal({3})}, SelectAttrs{0, -4}, "index -4"},
          {{make.normal({3})}, SelectAttrs{1, 0}, "axis 1 is out of range"},
          {{make.normal({})}, SelectAttrs{0, 0}, "a scalar has no axis"}};
}

std::vector<Sample> unbind_samples(SampleMaker& make) {
  return {{{make.normal({4})}, UnbindAttrs{0}, "elements"},
          {{make.normal({3, 5})}, UnbindAttrs{0}, "rows"},
          {{make.normal({5, 2})}, UnbindAttrs{-1}, "columns"},
          {{make.normal({2, 5, 3, 2, 4})}, UnbindAttrs{2}, "inner axis"},
          {{make.normal({2, 1, 3})}, UnbindAttrs{1}, "single"},
          {{make.normal({0, 3})}, UnbindAttrs{-1}, "empty"}};
}
std::vector<ErrorSample> unbind_errors(SampleMaker& make) {
  return {{{make.normal({2, 5})}, UnbindAttrs{1}, "has size 5; the op has 1 to 4 outputs"},
          {{make.normal({2, 0})}, UnbindAttrs{1}, "has size 0"},
          {{make.normal({3})}, UnbindAttrs{1}, "axis 1 is out of range"},
          {{make.normal({})}, UnbindAttrs{0}, "a scalar has no axis"}};
}

std::vector<Sample> expand_samples(SampleMaker& make) {
  return {{{make.normal({})}, ShapeAttrs{{2, 3}}, "scalar"},
          {{make.normal({1})}, ShapeAttrs{{5}}, "single"},
          {{make.normal({3})}, ShapeAttrs{{2, 3}}, "new axis"},
          {{make.normal({3, 1})}, ShapeAttrs{{3, 4}}, "column"},
          {{make.normal({3, 1, 2})}, ShapeAttrs{{2, -1, 5, -1}}, "kept sizes"},
          {{make.normal({1, 3})}, ShapeAttrs{{0, 3}}, "to nothing"},
          {{make.normal({2, 3})}, ShapeAttrs{{2, 3}}, "unchanged"},
          {{make.normal({1, 4, 1, 3})}, ShapeAttrs{{3, 4, 2, 3}}, "two axes"}};
}
std::vector<ErrorSample> expand_errors(SampleMaker& make) {
  return {{{make.normal({2, 3})}, ShapeAttrs{{3}}, "lower rank"},
          {{make.normal({2, 3})}, ShapeAttrs{{4, 3}}, "only axes of size 1"},
          {{make.normal({3})}, ShapeAttrs{{-1, 3}}, "has no size to keep"}};
}

std::vector<Sample> squeeze_samples(SampleMaker& make) {
  return {{{make.normal({})}, SqueezeAttrs{~0u}, "scalar"},
          {{make.normal({1, 3, 1, 2})}, SqueezeAttrs{~0u}, "all"},
          {{make.normal({1, 3, 1})}, SqueezeAttrs{4}, "one axis"},
          {{make.normal({2, 3})}, SqueezeAttrs{2}, "nothing to do"},
          {{make.normal({1, 0})}, SqueezeAttrs{1}, "empty"}};
}

std::vector<Sample> unsqueeze_samples(SampleMaker& make) {
  return {{{make.normal({})}, UnsqueezeAttrs{0}, "scalar"},
          {{make.normal({3})}, UnsqueezeAttrs{-1}, "at the end"},
          {{make.normal({3, 2})}, UnsqueezeAttrs{1}, "in the middle"},
          {{make.normal({0, 2})}, UnsqueezeAttrs{0}, "empty"}};
}
std::vector<ErrorSample> unsqueeze_errors(SampleMaker& make) {
  return {{{make.normal({3})}, UnsqueezeAttrs{2}, "axis 2 is out of range"},
          {{make.normal({1, 1, 1, 1, 1, 1, 1, 1})}, UnsqueezeAttrs{0}, "more than 8 dimensions"}};
}

Cost no_cost(std::span<const TensorMeta>, std::span<const TensorMeta>, AttrsView) { return {}; }

consteval OpDef view_op(const char* name, const char* formula, std::span<const AttrDef> attributes,
                        InferFn infer, BackwardFn backward, BackwardFn rule, ReferenceFn reference,
                        SamplesFn samples, ErrorSamplesFn errors, std::span<const InputDef> inputs = kX,
                        std::span<const OutputDef> outputs = kY) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = inputs,
                  .outputs = outputs,
                  .attributes = attributes,
                  .infer = infer,
                  .cpu = {nullptr, backward},
                  .cuda = {nullptr, backward},
                  .rule = rule,
                  .undefined_grads = outputs.front().rest,
                  .view = true,
                  .dtypes = kAllTypes,
                  .cost = no_cost,
                  .reference = reference,
                  .samples = samples,
                  .error_samples = errors});
}

}  // namespace

constexpr OpDef k_view =
    view_op("view", "y = x in another shape, same order", kShapeAttributes, reshape_infer, reshape_backward,
            reshape_backward, reshape_reference, view_samples, view_errors);
constexpr OpDef k_permute =
    view_op("permute", "y = x with its axes in another order", kPermuteAttributes, permute_infer,
            permute_backward, permute_backward, permute_reference, permute_samples, permute_errors);
constexpr OpDef k_slice =
    view_op("slice", "y = x[start:stop:step] along an axis", kSliceAttributes, slice_infer, slice_backward,
            slice_rule, slice_reference, slice_samples, slice_errors, kXAccumulates);
constexpr OpDef k_select =
    view_op("select", "y = x[index] along an axis", kSelectAttributes, select_infer, select_backward,
            select_rule, select_reference, select_samples, select_errors, kXAccumulates);
constexpr OpDef k_unbind = view_op("unbind", "y0, y1, ... = x[0], x[1], ... along an axis", kUnbindAttributes,
                                   unbind_infer, unbind_backward, unbind_rule, unbind_reference,
                                   unbind_samples, unbind_errors, kXAccumulates, kParts);
constexpr OpDef k_expand =
    view_op("expand", "y = x repeated along axes of size 1", kShapeAttributes, expand_infer, expand_backward,
            expand_rule, expand_reference, expand_samples, expand_errors);
constexpr OpDef k_squeeze =
    view_op("squeeze", "y = x without axes of size 1", kSqueezeAttributes, squeeze_infer, reshape_backward,
            reshape_backward, squeeze_reference, squeeze_samples, nullptr);
constexpr OpDef k_unsqueeze =
    view_op("unsqueeze", "y = x with a new axis of size 1", kUnsqueezeAttributes, unsqueeze_infer,
            reshape_backward, reshape_backward, unsqueeze_reference, unsqueeze_samples, unsqueeze_errors);

}  // namespace ct::views

namespace ct::rooms {
namespace {
constexpr const OpDef* ops[] = {&views::k_view,   &views::k_permute, &views::k_slice,   &views::k_select,
                                &views::k_unbind, &views::k_expand,  &views::k_squeeze, &views::k_unsqueeze};
}
extern const Room view;
const Room view{"view", ops};
}  // namespace ct::rooms
