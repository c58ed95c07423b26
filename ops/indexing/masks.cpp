#include <cotangent/ops/indexing/masks.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/indexing/indexing.h>

namespace ct {
CT_KERNEL_TABLES(masks)
namespace {

void infer(Infer& in) { in.output_later(DType::i64); }

constexpr InputDef kInputs[] = {{.name = "x", .gradient = false}};
constexpr OutputDef kOutputs[] = {{.name = "indices", .gradient = false}};

constexpr OpDef k_nonzero = checked({
    .name = "nonzero",
    .formula = "the indices of all x != 0",
    .inputs = kInputs,
    .outputs = kOutputs,
    .infer = infer,
    .kernels = &kernel_tables::masks,
    .dtypes = kAllTypes,
});

void check_mask(const char* op, const Tensor& mask) {
  CT_CHECK(mask.dtype() == DType::boolean, DTypeError, op, "the mask is ", describe(mask),
           "; it must be bool: compare with ct::ne(mask, 0) or convert with .to(ct::boolean)");
}

// x and the places that the mask chooses of it, both broadcast to one shape and flat.
struct Chosen {
  Shape shape;
  Tensor x, places;

  Chosen(const char* op, const Tensor& all, const Tensor& mask) {
    check_mask(op, mask);
    shape = broadcast_shapes(op, all.shape(), mask.shape());
    x = all.expand(shape).reshape({numel(shape)});
    places = nonzero(mask.expand(shape).reshape({numel(shape)})).select(1, 0);
  }
};

// The result of an out-of-place op on x, in x.
Tensor& assigned_to(const char* op, Tensor& x, const Tensor& result) {
  CT_CHECK(result.shape() == x.shape(), ShapeError, op, "the mask does not broadcast to ", describe(x),
           ", the result would be ", describe(result), "; its sizes must be x's or 1");
  return x.copy_(result);
}

}  // namespace

CT_ROOM(masks, &k_nonzero)

Tensor nonzero(const Tensor& x) { return dispatch(k_nonzero, {x}); }

std::vector<Tensor> where(const Tensor& condition) {
  return nonzero(condition.dim() == 0 ? condition.view({1}) : condition).unbind(1);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const Chosen chosen("masked_select", x, mask);
  return index_select(chosen.x, 0, chosen.places);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Scalar& value) {
  check_mask("masked_fill", mask);
  check_fits("masked_fill", value, x.dtype());
  CT_CHECK(x.dtype() == DType::boolean || promote(x.dtype(), value) == x.dtype(), DTypeError, "masked_fill",
           "x is ", describe(x), ", the value a fraction; convert x with .to(f32), or pass a whole number");
  return where(mask, x.dtype() == DType::boolean ? Scalar(value.to<bool>()) : value, x);
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  check_mask("masked_fill", mask);
  CT_CHECK(value.dim() == 0, ShapeError, "masked_fill", "the value is ", describe(value),
           "; it must be a number or a tensor of rank 0: masked_scatter() and where() take more");
  return where(mask, value.to(x.device(), x.dtype()), x);
}
Tensor& masked_fill_(Tensor& x, const Tensor& mask, const Scalar& value) {
  return assigned_to("masked_fill_", x, masked_fill(x, mask, value));
}
Tensor& masked_fill_(Tensor& x, const Tensor& mask, const Tensor& value) {
  return assigned_to("masked_fill_", x, masked_fill(x, mask, value));
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  const Chosen chosen("masked_scatter", x, mask);
  const std::int64_t n = chosen.places.numel();
  CT_CHECK(source.numel() >= n, ShapeError, "masked_scatter", "the source is ", describe(source),
           ", the mask chooses ", n, " elements; the source must have as many");
  const Tensor from = source.reshape({source.numel()}).narrow(0, 0, n);
  return index_copy(chosen.x, 0, chosen.places, from).view(chosen.shape);
}
Tensor& masked_scatter_(Tensor& x, const Tensor& mask, const Tensor& source) {
  return assigned_to("masked_scatter_", x, masked_scatter(x, mask, source));
}

CT_MEMBER(Tensor, nonzero, () const)
CT_MEMBER(Tensor, masked_select, (const Tensor& mask) const, mask)
CT_MEMBER(Tensor, masked_fill, (const Tensor& mask, const Scalar& value) const, mask, value)
CT_MEMBER(Tensor&, masked_fill_, (const Tensor& mask, const Scalar& value), mask, value)
CT_MEMBER(Tensor&, masked_fill_, (const Tensor& mask, const Tensor& value), mask, value)
CT_MEMBER(Tensor&, masked_scatter_, (const Tensor& mask, const Tensor& source), mask, source)

}  // namespace ct
