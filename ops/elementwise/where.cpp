#include <cotangent/ops/elementwise/where.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/where_internal.h>
#include <cotangent/ops/engine/map/op.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(where)
namespace {

using map::Parameters;

void infer_where(Infer& i) {
  CT_CHECK(i.in(0).dtype() == DType::boolean, DTypeError, "where", "the condition is ", describe(i.in(0)),
           "; it must be bool: compare with ct::ne(condition, 0) or convert with .to(ct::boolean)");
  Shape shape = i.in(1).shape();
  if (i.input_count() == 3) shape = broadcast_shapes("where", shape, i.in(2).shape());
  i.output(broadcast_shapes("where", i.in(0).shape(), shape), i.in(1).dtype());
}

}  // namespace

namespace elementwise::where_impl {

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
  const bool number_where_true = map::parameters_of(b.attrs_view).q.to<bool>();
  const Tensor part = number_where_true ? ct::where(b.in(0), 0, b.grad()) : ct::where(b.in(0), b.grad(), 0);
  b.set_grad_in(1, rules::unbroadcast(part, b.in_meta(1).shape));
}
}  // namespace

extern constexpr OpDef k_where = checked({.name = "where",
                                          .formula = "y = condition ? a : b",
                                          .inputs = kInputs,
                                          .outputs = map::kY,
                                          .infer = infer_where,
                                          .kernels = &kernel_tables::where,
                                          .rule = where_rule,
                                          .promotes = true,
                                          .dtypes = kAllTypes,
                                          .flops_each = 1});

extern constexpr OpDef k_where_scalar = checked({.name = "where_scalar",
                                                 .formula = "y = condition == q ? p : a",
                                                 .inputs = kScalarInputs,
                                                 .outputs = map::kY,
                                                 .attributes = map::kParameters,
                                                 .infer = infer_where,
                                                 .kernels = &kernel_tables::where,
                                                 .rule = where_scalar_rule,
                                                 .promotes = true,
                                                 .dtypes = kNumericTypes,
                                                 .flops_each = 1});

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
}  // namespace elementwise::where_impl

CT_ROOM(where, &elementwise::where_impl::k_where, &elementwise::where_impl::k_where_scalar)

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return dispatch(elementwise::where_impl::k_where, {condition, a, b});
}
Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b) {
  return elementwise::where_impl::select(condition, a, b, false);
}
Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b) {
  return elementwise::where_impl::select(condition, b, a, true);
}
Tensor where(const Tensor& condition, const Scalar& a, const Scalar& b) {
  const DType dtype = promote(promote(DType::boolean, a), b);
  return where(condition, full({}, a, {.dtype = dtype, .device = condition.device()}), b);
}

Tensor Tensor::where(const Tensor& condition, const Tensor& other) const {
  return ct::where(condition, *this, other);
}
Tensor Tensor::where(const Tensor& condition, const Scalar& other) const {
  return ct::where(condition, *this, other);
}

}  // namespace ct
