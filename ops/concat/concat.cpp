#include <cotangent/ops/concat/concat.h>

#include <cotangent/core/inline_vector.h>
#include <cotangent/core/registry.h>
#include <cotangent/ops/concat/concat_internal.h>
#include <cotangent/ops/dispatch.h>

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
  for (int k = 1; k < i.input_count(); ++k)
    CT_CHECK(i.in(k).shape() == shape, ShapeError, "stack", "input ", k, " is ", describe(i.in(k)),
             ", input 0 ", describe(i.in(0)), "; all shapes must be equal");
  shape.insert(wrap_axis("stack", i.attrs<ConcatAttrs>().axis, shape.size() + 1), i.input_count());
  i.output(shape, i.in(0).dtype());
}

Cost join_cost(std::span<const TensorMeta>, std::span<const TensorMeta> out, AttrsView) {
  return {0, 2 * static_cast<double>(numel(out[0].shape)) * static_cast<double>(size_of(out[0].dtype))};
}

// ---- references: element by element, from the formula ----------------------------------------------------

std::vector<Tensor> concat_reference(std::span<const Tensor> in, AttrsView attrs) {
  const std::int64_t given = static_cast<const ConcatAttrs*>(attrs.data)->axis;
  const int axis = static_cast<int>(given < 0 ? given + in[0].dim() : given);
  Shape shape = in[0].shape();
  shape[axis] = 0;
  for (const Tensor& x : in) shape[axis] += x.shape()[axis];
  Tensor y = Tensor::allocate(shape, f64, cpu);
  for (std::int64_t at = 0; at < y.numel(); ++at) {
    Dims index = shape;
    std::int64_t rest = at;
    for (int k = shape.size() - 1; k >= 0; --k) {
      index[k] = rest % shape[k];
      rest /= shape[k];
    }
    std::size_t source = 0;
    while (index[axis] >= in[source].shape()[axis]) index[axis] -= in[source++].shape()[axis];
    std::int64_t from = 0;
    for (int k = 0; k < shape.size(); ++k) from += index[k] * in[source].strides()[k];
    y.data<double>()[at] = in[source].data<double>()[from];
  }
  return {y};
}

std::vector<Tensor> stack_reference(std::span<const Tensor> in, AttrsView attrs) {
  std::vector<Tensor> rows;
  const std::int64_t axis = static_cast<const ConcatAttrs*>(attrs.data)->axis;
  for (const Tensor& x : in) {
    Shape shape = x.shape();
    Strides strides = x.strides();
    const int at = static_cast<int>(axis < 0 ? axis + x.dim() + 1 : axis);
    shape.insert(at, 1);
    strides.insert(at, 0);
    rows.push_back(Tensor::from_storage(x.impl()->storage, shape, strides, x.storage_offset(), f64));
  }
  return concat_reference(rows, attrs);
}

// ---- samples ----------------------------------------------------------------------------------------------

std::vector<Sample> concat_samples(SampleMaker& make) {
  std::vector<Sample> samples{
      {{make.normal({3}), make.normal({1}), make.normal({4})}, ConcatAttrs{0}, "vectors"},
      {{make.normal({5, 3})}, ConcatAttrs{0}, "a single input"},
      {{make.normal({2, 3}), make.normal({1, 3})}, ConcatAttrs{0}, "rows"},
      {{make.normal({3, 2}), make.normal({3, 5})}, ConcatAttrs{-1}, "columns"},
      {{make.normal({2, 4, 3}), make.normal({2, 8, 3}), make.normal({2, 4, 3})},
       ConcatAttrs{1},
       "inner axis"},
      {{make.normal({2, 0}), make.normal({2, 3}), make.normal({2, 0})}, ConcatAttrs{1}, "some empty"},
      {{make.normal({0, 3}), make.normal({0, 3})}, ConcatAttrs{0}, "all empty"},
      {{make.normal({16, 4}), make.normal({16, 8})}, ConcatAttrs{1}, "wide words"},
  };
  Sample many{{}, ConcatAttrs{0}, "more inputs than a mask or a launch holds"};
  for (int k = 0; k < 131; ++k) many.inputs.push_back(make.normal({k % 3, 2}));
  samples.push_back(std::move(many));
  return samples;
}

std::vector<ErrorSample> concat_errors(SampleMaker& make) {
  return {{{make.normal({2, 3}), make.normal({2, 4})}, ConcatAttrs{0}, "must be equal"},
          {{make.normal({2, 3}), make.normal({6})}, ConcatAttrs{0}, "must be equal"},
          {{make.normal({}), make.normal({})}, ConcatAttrs{0}, "use stack()"},
          {{make.normal({2}), make.normal({2})}, ConcatAttrs{1}, "axis 1 is out of range"}};
}

std::vector<Sample> stack_samples(SampleMaker& make) {
  return {
      {{make.normal({}), make.normal({}), make.normal({})}, ConcatAttrs{0}, "scalars"},
      {{make.normal({3}), make.normal({3})}, ConcatAttrs{0}, "rows"},
      {{make.normal({3}), make.normal({3})}, ConcatAttrs{-1}, "columns"},
      {{make.normal({2, 5, 3}), make.normal({2, 5, 3}), make.normal({2, 5, 3})},
       ConcatAttrs{1},
       "inner axis"},
      {{make.normal({4, 1})}, ConcatAttrs{2}, "a single input"},
      {{make.normal({0, 2}), make.normal({0, 2})}, ConcatAttrs{0}, "empty"},
  };
}

std::vector<ErrorSample> stack_errors(SampleMaker& make) {
  return {{{make.normal({2, 3}), make.normal({3, 2})}, ConcatAttrs{0}, "all shapes must be equal"},
          {{make.normal({2}), make.normal({2})}, ConcatAttrs{2}, "axis 2 is out of range"}};
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
    .cost = join_cost,
    .reference = concat_reference,
    .samples = concat_samples,
    .error_samples = concat_errors,
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
    .cost = join_cost,
    .reference = stack_reference,
    .samples = stack_samples,
    .error_samples = stack_errors,
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
