#include <cotangent/ops/indexing/embedding.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/indexing/embedding_internal.h>
#include <cotangent/ops/indexing/indexing.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(embedding)
namespace {

using indexing_impl::embedded::Attrs;

void infer(Infer& in) {
  const Tensor &weight = in.in(0), &indices = in.in(1);
  CT_CHECK(weight.dim() == 2, ShapeError, "embedding", "weight is ", describe(weight),
           "; it must be [rows, columns]");
  CT_CHECK(indices.dtype() == DType::i64 || indices.dtype() == DType::i32, DTypeError, "embedding",
           "indices is ", describe(indices), "; indices must be i64 or i32: convert with .to(i64)");
  const Attrs& attrs = in.attrs<Attrs>();
  const std::int64_t rows = weight.size(0);
  CT_CHECK(!attrs.padded || (attrs.padding_idx >= -rows && attrs.padding_idx < rows), ValueError, "embedding",
           "padding_idx is ", attrs.padding_idx, " and weight ", describe(weight), "; it must lie in [",
           -rows, ", ", rows, ")");
  rules::check_room_for_axis("embedding", "indices", indices);
  Shape out = indices.shape();
  out.push_back(weight.size(1));
  in.output(out, weight.dtype());
}

// The cotangents are added to the rows that were read, those of the padding row as zeros.
void rule(const Backward& b) {
  if (!b.needs(0)) return;
  const Shape& weight = b.in_meta(0).shape;
  const std::int64_t count = numel(b.in_meta(1).shape), padding = b.attrs<Attrs>().padding_row(weight[0]);
  const Tensor rows = b.in(1).reshape({count});
  Tensor g = b.grad().reshape({count, weight[1]});
  if (padding >= 0) g = where(eq(rows, padding).unsqueeze(1), 0, g);
  const Tensor none = zeros(weight, {.dtype = g.dtype(), .device = g.device()});
  b.set_grad_in(0, index_add(none, 0, rows, g));
}

// Rows are picked as they lie.
bool readable(const Tensor& weight) { return weight.size(1) <= 1 || weight.stride(1) == 1; }

constexpr InputDef kInputs[] = {
    {.name = "weight", .needs = "indices", .accumulates = true, .contiguous = true, .readable = readable},
    {.name = "indices", .gradient = false, .any_dtype = true, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, padding_idx), CT_ATTRIBUTE(Attrs, padded)};

constexpr OpDef k_embedding = checked({
    .name = "embedding",
    .formula = "y = w[i]",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::embedding,
    .rule = rule,
    .cost = gather_cost,
});

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  return dispatch(k_embedding, {weight, indices}, Attrs{padding_idx.value_or(0), padding_idx.has_value()});
}

CT_ROOM(embedding, &k_embedding)
}  // namespace ct
