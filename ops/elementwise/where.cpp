#include <cotangent/ops/elementwise/where.h>

#include <cotangent/core/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/where_internal.h>
#include <cotangent/ops/engine/map/op.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(where)
namespace {

using elementwise::Parameters;

void infer_where(Infer& i) {
  CT_CHECK(i.in(0).dtype() == DType::boolean, DTypeError, "where", "the condition is ", describe(i.in(0)),
           "; it must be bool: compare with ct::ne(condition, 0) or convert with .to(ct::boolean)");
  Shape shape = i.in(1).shape();
  if (i.input_count() == 3) shape = broadcast_shapes("where", shape, i.in(2).shape());
  i.output(broadcast_shapes("where", i.in(0).shape(), shape), i.in(1).dtype());
}

// Reads a contiguous list as if broadcast to `shape`.
double broadcast_at(const std::vector<double>& values, const Shape& own, const Shape& shape, std::int64_t i) {
  const Strides strides = broadcast_strides(own, contiguous_strides(own), shape);
  std::int64_t at = 0;
  for (int d = shape.size() - 1; d >= 0; i /= shape[d--]) at += i % shape[d] * strides[d];
  return values[static_cast<std::size_t>(at)];
}

template <class Choose>
Tensor reference(std::span<const Tensor> inputs, Choose&& choose) {
  Shape shape = inputs[0].shape();
  for (const Tensor& t : inputs) shape = broadcast_shapes("reference", shape, t.shape());
  Tensor y = Tensor::allocate(shape, DType::f64, cpu);
  std::vector<std::vector<double>> values;
  for (const Tensor& t : inputs) values.push_back(t.to_vector<double>());
  double at[3] = {};
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    for (std::size_t k = 0; k < inputs.size(); ++k)
      at[k] = broadcast_at(values[k], inputs[k].shape(), shape, i);
    static_cast<double*>(y.raw_data())[i] = choose(at);
  }
  return y;
}
std::vector<Tensor> where_reference(std::span<const Tensor> inputs, AttrsView) {
  return {reference(inputs, [](const double* v) { return v[0] != 0 ? v[1] : v[2]; })};
}
std::vector<Tensor> where_scalar_reference(std::span<const Tensor> inputs, AttrsView attrs) {
  const Parameters parameters = elementwise::parameters_of(attrs);
  const double p = parameters.p.to<double>();
  const bool selects_number = parameters.q.to<bool>();
  return {reference(inputs, [&](const double* v) { return (v[0] != 0) == selects_number ? p : v[1]; })};
}

std::vector<Sample> where_samples(SampleMaker& m) {
  struct Shapes {
    Shape condition, a, b;
    const char* label;
  };
  const Shapes all[] = {
      {{}, {}, {}, "scalars"},
      {{0}, {0}, {0}, "empty"},
      {{1}, {1}, {1}, "one"},
      {{3, 5, 7}, {3, 5, 7}, {3, 5, 7}, "same"},
      {{4, 1}, {5}, {}, "all broadcast"},
      {{5}, {4, 5}, {4, 1}, "condition is a row"},
      {{2, 72}, {72}, {2, 1}, "long rows"},
      {{}, {3}, {3}, "one condition"},
  };
  std::vector<Sample> samples;
  for (const Shapes& s : all)
    samples.push_back({{m.mask(s.condition), m.normal(s.a), m.normal(s.b)}, {}, s.label});
  return samples;
}
std::vector<Sample> where_scalar_samples(SampleMaker& m) {
  std::vector<Sample> samples;
  for (const bool q : {false, true}) {
    const Parameters parameters{7, q};
    samples.push_back({{m.mask({}), m.normal({})}, parameters, "scalars"});
    samples.push_back({{m.mask({0, 2}), m.normal({0, 2})}, parameters, "empty"});
    samples.push_back({{m.mask({3, 43}), m.normal({3, 43})}, parameters, "same"});
    samples.push_back({{m.mask({3, 1}), m.normal({5})}, parameters, "both broadcast"});
    samples.push_back({{m.mask({4, 70}), m.normal({4, 1})}, parameters, "long rows"});
  }
  return samples;
}
std::vector<ErrorSample> where_errors(SampleMaker& m) {
  return {{{m.normal({3}), m.normal({3}), m.normal({3})}, {}, "the condition is f64[3]; it must be bool"},
          {{m.mask({3}), m.normal({4}), m.normal({4})}, {}, "shapes [3] and [4] do not broadcast"},
          {{m.mask({3}), m.normal({3}), m.normal({2})}, {}, "shapes [3] and [2] do not broadcast"}};
}

}  // namespace

namespace where_op {

namespace {
constexpr InputDef kInputs[] = {{.name = "condition", .gradient = false, .any_dtype = true},
                                {.name = "a", .needs = "condition"},
                                {.name = "b", .needs = "condition"}};
constexpr std::span<const InputDef> kScalarInputs = std::span(kInputs).first(2);

// The cotangent goes to the one that was chosen.
void where_rule(const Backward& b) {
  const auto share = [&](int i, const Tensor& part) {
    b.set_grad_in(i, rules::unbroadcast(part, b.in_meta(i).shape));
  };
  if (b.needs(1)) share(1, ct::where(b.in(0), b.grad(), 0));
  if (b.needs(2)) share(2, ct::where(b.in(0), 0, b.grad()));
}
void where_scalar_rule(const Backward& b) {
  if (!b.needs(1)) return;
  const bool number_where_true = elementwise::parameters_of(b.attrs_view).q.to<bool>();
  const Tensor part = number_where_true ? ct::where(b.in(0), 0, b.grad()) : ct::where(b.in(0), b.grad(), 0);
  b.set_grad_in(1, rules::unbroadcast(part, b.in_meta(1).shape));
}
}  // namespace

extern constexpr OpDef k_where = checked({.name = "where",
                                          .formula = "y = condition ? a : b",
                                          .inputs = kInputs,
                                          .outputs = elementwise::kY,
                                          .infer = infer_where,
                                          .kernels = &kernel_tables::where,
                                          .rule = where_rule,
                                          .promotes = true,
                                          .dtypes = kAllTypes,
                                          .cost = elementwise::elementwise_cost,
                                          .reference = where_reference,
                                          .samples = where_samples,
                                          .error_samples = where_errors});

extern constexpr OpDef k_where_scalar = checked({.name = "where_scalar",
                                                 .formula = "y = condition == q ? p : a",
                                                 .inputs = kScalarInputs,
                                                 .outputs = elementwise::kY,
                                                 .attributes = elementwise::kParameters,
                                                 .infer = infer_where,
                                                 .kernels = &kernel_tables::where,
                                                 .rule = where_scalar_rule,
                                                 .promotes = true,
                                                 .dtypes = kNumericTypes,
                                                 .cost = elementwise::elementwise_cost,
                                                 .reference = where_scalar_reference,
                                                 .samples = where_scalar_samples});

namespace {

Tensor select(const Tensor& condition, const Tensor& tensor, const Scalar& number, bool selects_number) {
  const DType dtype = promote(tensor.dtype(), number);
  check_fits("where", number, dtype);
  if (dtype == DType::boolean) {
    const Tensor other = full({}, number, {.dtype = dtype, .device = tensor.device()});
    return selects_number ? dispatch(k_where, {condition, other, tensor})
                          : dispatch(k_where, {condition, tensor, other});
  }
  const Parameters parameters{number, selects_number};
  if (dtype != tensor.dtype()) return dispatch(k_where_scalar, {condition, tensor.to(dtype)}, parameters);
  return dispatch(k_where_scalar, {condition, tensor}, parameters);
}
}  // namespace
}  // namespace where_op

CT_ROOM(where, &where_op::k_where, &where_op::k_where_scalar)

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return dispatch(where_op::k_where, {condition, a, b});
}
Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b) {
  return where_op::select(condition, a, b, false);
}
Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b) {
  return where_op::select(condition, b, a, true);
}

}  // namespace ct
