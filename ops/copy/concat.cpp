#include <cotangent/ops/copy/concat.h>

#include <cotangent/core/base/inline_vector.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/copy/concat_internal.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(concat)
namespace {

// ---- shape rules ------------------------------------------------------------------------------------------

void concat_infer(Infer& i) {
  Shape shape = i.in(0).shape();
  CT_CHECK(!shape.empty(), ShapeError, "concat", "input 0 is a scalar, ", describe(i.in(0)),
           ", and has no axis to be joined along; use stack()");
  const int axis = wrap_axis("concat", i.attrs<ConcatAttrs>().axis, shape.size());
  for (int k = 1; k < i.input_count(); ++k) {
    Shape other = i.in(k).shape();
    const bool same_rank = other.size() == shape.size();
    const std::int64_t length = same_rank ? other[axis] : 0;
    if (same_rank) other[axis] = shape[axis];
    CT_CHECK(other == shape, ShapeError, "concat", "input ", k, " is ", describe(i.in(k)), ", input 0 ",
             describe(i.in(0)), "; all sizes but that of axis ", axis, " must be equal");
    shape[axis] += length;
  }
  i.output(shape, i.in(0).dtype());
}

void stack_infer(Infer& i) {
  Shape shape = i.in(0).shape();
  rules::check_room_for_axis("stack", "input 0", i.in(0));
  for (int k = 1; k < i.input_count(); ++k)
    CT_CHECK(i.in(k).shape() == shape, ShapeError, "stack", "input ", k, " is ", describe(i.in(k)),
             ", input 0 ", describe(i.in(0)), "; all shapes must be equal");
  shape.insert(wrap_axis("stack", i.attrs<ConcatAttrs>().axis, shape.size() + 1), i.input_count());
  i.output(shape, i.in(0).dtype());
}

constexpr InputDef kInputs[] = {{.name = "tensors", .rest = true}};
constexpr OutputDef kOutputs[] = {{.name = "y"}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(ConcatAttrs, axis)};

constexpr OpDef k_concat = checked({
    .name = "concat",
    .formula = "y[.., offset_i + j, ..] = x_i[.., j, ..]",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = concat_infer,
    .kernels = &kernel_tables::concat,
    .rule = concat_gradients,
    .promotes = true,
    .dtypes = kAllTypes,
});

constexpr OpDef k_stack = checked({
    .name = "stack",
    .formula = "y[.., i, ..] = x_i[.., ..]",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = stack_infer,
    .kernels = &kernel_tables::concat,
    .rule = stack_gradients,
    .promotes = true,
    .dtypes = kAllTypes,
});

Tensor join(const OpDef& op, std::span<const Tensor> tensors, std::int64_t axis) {
  CT_CHECK(!tensors.empty(), ValueError, op.name, "got no tensors; at least one is needed");
  InlineVector<TensorRef, 16> refs;
  for (const Tensor& t : tensors) refs.emplace_back(&t);
  Tensor out;
  const ConcatAttrs attrs{axis};
  dispatch(op, std::span<const TensorRef>(refs.begin(), refs.size()), attrs, std::span<Tensor>(&out, 1));
  return out;
}

}  // namespace

CT_ROOM(concat, &k_concat, &k_stack)

Tensor concat(TensorList tensors, Integer axis) { return join(k_concat, tensors, axis); }
Tensor stack(TensorList tensors, Integer axis) { return join(k_stack, tensors, axis); }

// The cotangent of an input is a piece of the output's: a view of it.
void concat_gradients(const Backward& b) {
  const std::int64_t axis = b.attrs<ConcatAttrs>().axis;
  std::int64_t offset = 0;
  for (int i = 0; i < b.input_count(); ++i) {
    const Shape& shape = b.in_meta(i).shape;
    const std::int64_t length = shape[wrap_axis("concat", axis, shape.size())];
    if (b.needs(i)) b.set_grad_in(i, b.grad().narrow(axis, offset, length));
    offset += length;
  }
}

void stack_gradients(const Backward& b) {
  for (int i = 0; i < b.input_count(); ++i)
    if (b.needs(i)) b.set_grad_in(i, b.grad().select(b.attrs<ConcatAttrs>().axis, i));
}

}  // namespace ct
