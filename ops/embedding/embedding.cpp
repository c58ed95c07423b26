#include <cotangent/ops/embedding/embedding.h>

#include <cotangent/core/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/where.h>
#include <cotangent/ops/embedding/embedding_internal.h>
#include <cotangent/ops/matmul/matmul.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(embedding)
namespace {

using embedding_kernels::Attrs;

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
  CT_CHECK(indices.dim() < kMaxRank, ShapeError, "embedding", "indices is ", describe(indices),
           "; the result has one axis more, and at most ", kMaxRank, " are supported");
  Shape out = indices.shape();
  out.push_back(weight.size(1));
  in.output(out, weight.dtype());
}

Cost cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
  return {0, 2.0 * static_cast<double>(numel(out[0].shape)) * static_cast<double>(size_of(out[0].dtype)) +
                 static_cast<double>(numel(in[1].shape)) * static_cast<double>(size_of(in[1].dtype))};
}

Attrs padding(std::int64_t idx) { return {idx, true}; }

std::vector<Sample> samples(SampleMaker& make) {
  const auto sample = [&](const Shape& indices, std::int64_t rows, std::int64_t columns, Attrs attrs,
                          const char* label) {
    // Central differences know nothing of the padding row, which is read but gets no gradient.
    return Sample{{make.normal({rows, columns}), make.index(indices, rows)}, attrs, label, !attrs.padded};
  };
  // Long runs of the same row are summed in pieces on CUDA; the values are small, so that 16-bit sums stay
  // comparable.
  Tensor many = make.uniform({3, 8}, -0.01, 0.01);
  return {sample({2, 3}, 7, 5, {}, "a batch"),
          sample({64}, 5, 24, {}, "rows that repeat"),
          sample({3}, 40, 128, {}, "a table larger than the batch"),
          sample({4, 5}, 6, 3, padding(2), "padding"),
          sample({4, 5}, 6, 8, padding(-1), "padding from the end"),
          sample({}, 4, 6, {}, "one index"),
          sample({2, 2, 2}, 3, 1, {}, "one column"),
          sample({5}, 1, 4, {}, "one row"),
          sample({9}, 4, 1030, {}, "wide rows"),
          {{many, make.index({300}, 2)}, Attrs{}, "long runs"},
          {{make.normal({6, 4}), make.index({3, 4}, 6).to(i32)}, Attrs{}, "i32"},
          sample({0, 3}, 4, 5, {}, "no indices"),
          sample({3}, 4, 0, {}, "no columns"),
          {{make.normal({0, 4}), make.index({0}, 1)}, Attrs{}, "no rows"}};
}

std::vector<ErrorSample> error_samples(SampleMaker& make) {
  Tensor high = make.index({2, 3}, 5).clone(), low = make.index({4}, 5).clone();
  high.data<std::int64_t>()[4] = 5;
  low.data<std::int64_t>()[1] = -1;
  return {{{make.normal({5, 3}), high}, Attrs{}, "token 5 is out of range for a table of 5 rows"},
          {{make.normal({5, 3}), low}, Attrs{}, "token -1 is out of range for a table of 5 rows"},
          {{make.normal({5}), make.index({2}, 5)}, Attrs{}, "it must be [rows, columns]"},
          {{make.normal({5, 3}), make.normal({2})}, Attrs{}, "indices must be i64 or i32"},
          {{make.normal({5, 3}), make.index({2}, 5)}, padding(5), "it must lie in [-5, 5)"},
          {{make.index({5, 3}, 5), make.index({2}, 5)}, Attrs{}, "supported dtypes are f32"},
          {{make.normal({5, 3}), make.index({1, 1, 1, 1, 1, 1, 1, 1}, 5)}, Attrs{}, "one axis more"}};
}

// dw = one_hot(indices)^T g, and 0 in the padding row. A table of rows x indices is written: the price of higher
// derivatives alone.
void rule(const Backward& b) {
  if (!b.needs(0)) return;
  const Shape& weight = b.in_meta(0).shape;
  const std::int64_t count = numel(b.in_meta(1).shape);
  Tensor hot = rules::one_hot(b.in(1).reshape({count}), -1, weight[0], b.grad().dtype());
  const std::int64_t padding = b.attrs<Attrs>().padding_row(weight[0]);
  if (padding >= 0) {
    const Tensor rows = arange(weight[0], {.device = hot.device()});
    hot = where(eq(rows, padding), 0, hot);
  }
  b.set_grad_in(0, matmul(hot.t(), b.grad().reshape({count, weight[1]})));
}

constexpr InputDef kInputs[] = {{.name = "weight", .needs = "indices", .accumulates = true},
                                {.name = "indices", .gradient = false, .any_dtype = true, .packed = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .packed = true}};
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
    .cost = cost,
    .samples = samples,
    .error_samples = error_samples,
});

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  return dispatch(k_embedding, {weight, indices}, Attrs{padding_idx.value_or(0), padding_idx.has_value()});
}

CT_ROOM(embedding, &k_embedding)
}  // namespace ct
