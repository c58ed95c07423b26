#include <cotangent/ops/view/view_defs_internal.h>

#include <algorithm>

#include <cotangent/autograd/engine.h>
#include <cotangent/core/memory/memory.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/rules_internal.h>

// Gradients of views. A view moves nothing, so its gradient only says where
// each cotangent belongs; the formulas are derived in README.md.

namespace ct::view {
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
      detail::add_gradient(part, b.grad(k), true);
    } else {
      copy_kernel(part, b.grad(k));
    }
  }
}
void slice_backward(const Backward& b) { place_backward(b, slice_infer); }
void select_backward(const Backward& b) { place_backward(b, select_infer); }
void diagonal_backward(const Backward& b) { place_backward(b, diagonal_infer); }

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
  if (b.needs(0)) set_summed_grad(b, 0, b.grad());
}

// ---- rules: those of view, permute and their kin are their gradients, which are views themselves ---------

// slice: the cotangents apart by the step, and zeros around them.
void slice_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const SliceAttrs& a = b.attrs<SliceAttrs>();
  const Shape& shape = b.in_meta(0).shape;
  const int axis = wrap_axis("slice", a.axis, shape.size());
  const std::int64_t n = shape[axis], count = b.grad().shape()[axis];
  if (count == 0) return b.set_grad_in(0, detail::filled(b.in_meta(0), 0));
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
  for (const Tensor& g : b.grads) parts.push_back(g.defined() ? g : detail::filled(part, 0));
  b.set_grad_in(0, stack(parts, axis));
}

void expand_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, rules::unbroadcast(b.grad(), b.in_meta(0).shape));
}

// diagonal: the cotangents at the places of the diagonal in both axes taken as one, which is then the last.
void diagonal_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const DiagonalAttrs& a = b.attrs<DiagonalAttrs>();
  const Tensor& g = b.grad();
  const Shape& shape = b.in_meta(0).shape;
  const int row = wrap_axis("diagonal", a.axis1, shape.size()),
            column = wrap_axis("diagonal", a.axis2, shape.size());
  Shape flat = g.shape(), apart = g.shape();
  flat.back() = shape[row] * shape[column];
  apart.back() = shape[row];
  apart.push_back(shape[column]);
  const Tensor steps = arange(g.shape().back(), {.dtype = DType::i64, .device = g.device()});
  const std::int64_t first = a.offset >= 0 ? a.offset : -a.offset * shape[column];
  const Tensor none = zeros(flat, {.dtype = g.dtype(), .device = g.device()});
  const Tensor placed = index_add(none, -1, steps * (shape[column] + 1) + first, g).view(apart);
  Dims order;
  for (int i = 0, rest = 0; i < shape.size(); ++i)
    order.push_back(i == row ? shape.size() - 2 : i == column ? shape.size() - 1 : rest++);
  b.set_grad_in(0, placed.permute(order));
}

// unfold: an element of several windows sums their cotangents. Its backward kernel too.
void unfold_rule(const Backward& b) {
  if (!b.needs(0)) return;
  const UnfoldAttrs& a = b.attrs<UnfoldAttrs>();
  const Tensor& g = b.grad();
  const Shape& shape = b.in_meta(0).shape;
  const int axis = wrap_axis("unfold", a.axis, shape.size());
  const TensorOptions integers{.dtype = DType::i64, .device = g.device()};
  const Tensor places = (arange(g.shape()[axis], integers) * a.step).unsqueeze(1) + arange(a.size, integers);
  const Tensor none = zeros(shape, {.dtype = g.dtype(), .device = g.device()});
  b.set_grad_in(0, index_add(none, axis, places.reshape({places.numel()}),
                             g.movedim(-1, axis + 1).flatten(axis, axis + 1)));
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
constexpr AttrDef kDiagonalAttributes[] = {CT_ATTRIBUTE(DiagonalAttrs, offset),
                                           CT_ATTRIBUTE(DiagonalAttrs, axis1),
                                           CT_ATTRIBUTE(DiagonalAttrs, axis2)};
constexpr AttrDef kUnfoldAttributes[] = {CT_ATTRIBUTE(UnfoldAttrs, axis), CT_ATTRIBUTE(UnfoldAttrs, size),
                                         CT_ATTRIBUTE(UnfoldAttrs, step)};

consteval OpDef view_op(const char* name, const char* formula, std::span<const AttrDef> attributes,
                        InferFn infer, BackwardFn backward, BackwardFn rule,
                        std::span<const InputDef> inputs = kX, std::span<const OutputDef> outputs = kY) {
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
                  .dtypes = kAllTypes});
}

}  // namespace

constexpr OpDef k_view = view_op("view", "y = x in another shape, same order", kShapeAttributes,
                                 reshape_infer, reshape_backward, reshape_backward);
constexpr OpDef k_permute = view_op("permute", "y = x with its axes in another order", kPermuteAttributes,
                                    permute_infer, permute_backward, permute_backward);
constexpr OpDef k_slice = view_op("slice", "y = x[start:stop:step] along an axis", kSliceAttributes,
                                  slice_infer, slice_backward, slice_rule, kXAccumulates);
constexpr OpDef k_select = view_op("select", "y = x[index] along an axis", kSelectAttributes, select_infer,
                                   select_backward, select_rule, kXAccumulates);
constexpr OpDef k_unbind = view_op("unbind", "y0, y1, ... = x[0], x[1], ... along an axis", kUnbindAttributes,
                                   unbind_infer, unbind_backward, unbind_rule, kXAccumulates, kParts);
constexpr OpDef k_expand = view_op("expand", "y = x repeated along axes of size 1", kShapeAttributes,
                                   expand_infer, expand_backward, expand_rule);
constexpr OpDef k_squeeze = view_op("squeeze", "y = x without axes of size 1", kSqueezeAttributes,
                                    squeeze_infer, reshape_backward, reshape_backward);
constexpr OpDef k_unsqueeze = view_op("unsqueeze", "y = x with a new axis of size 1", kUnsqueezeAttributes,
                                      unsqueeze_infer, reshape_backward, reshape_backward);
constexpr OpDef k_diagonal = view_op("diagonal", "y_i = x[i, i + offset] of two axes", kDiagonalAttributes,
                                     diagonal_infer, diagonal_backward, diagonal_rule, kXAccumulates);
constexpr OpDef k_unfold = view_op("unfold", "y[w, .., j] = x[w step + j, ..] along an axis",
                                   kUnfoldAttributes, unfold_infer, unfold_rule, unfold_rule);

}  // namespace ct::view

namespace ct::rooms {
namespace {
constexpr const OpDef* ops[] = {&view::k_view,     &view::k_permute, &view::k_slice,   &view::k_select,
                                &view::k_unbind,   &view::k_expand,  &view::k_squeeze, &view::k_unsqueeze,
                                &view::k_diagonal, &view::k_unfold};
}
extern const Room view;
const Room view{"view", ops};
}  // namespace ct::rooms
