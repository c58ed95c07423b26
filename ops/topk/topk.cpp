#include <cotangent/ops/topk/topk.h>

#include <cotangent/core/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/rules_internal.h>
#include <cotangent/ops/topk/topk_internal.h>

namespace ct {
CT_KERNEL_TABLES(topk)
namespace {

using topk_kernels::Attrs;

void infer(Infer& in) {
  const auto& attrs = in.attrs<Attrs>();
  const Tensor& x = in.in(0);
  CT_CHECK(x.dim() > 0, ShapeError, "topk", "x is ", describe(x),
           ", which has no axis to choose along; x.flatten() makes one");
  const int axis = wrap_axis("topk", attrs.axis, x.dim());
  CT_CHECK(attrs.k >= 0 && attrs.k <= x.size(axis), ShapeError, "topk", "k is ", attrs.k, ", x is ",
           describe(x), "; k must lie in [0, ", x.size(axis), "], the size along axis ", attrs.axis);
  Shape out = x.shape();
  out[axis] = attrs.k;
  in.output(out, x.dtype());
  in.output(out, DType::i64);
}

Cost cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
  const double size = static_cast<double>(size_of(in[0].dtype));
  return {0, static_cast<double>(numel(in[0].shape)) * size +
                 static_cast<double>(numel(out[0].shape)) * (size + 8)};
}

std::vector<Sample> samples(SampleMaker& make) {
  const auto sample = [&](const Shape& shape, std::int64_t k, std::int64_t axis, const char* label) {
    return Sample{{make.normal(shape)}, Attrs{k, axis}, label};
  };
  return {sample({7}, 3, 0, "a vector"),
          sample({5, 9}, 1, -1, "the largest"),
          sample({5, 9}, 9, -1, "all of a row"),
          sample({5, 9}, 0, -1, "none"),
          sample({9, 5}, 4, 0, "along the first axis"),
          sample({2, 11, 3}, 5, 1, "along an inner axis"),
          sample({2, 1}, 1, -1, "rows of one"),
          sample({0, 4}, 2, -1, "no rows"),
          sample({3, 1500}, 40, -1, "long rows"),
          sample({2, 5000}, 4097, -1, "many of long rows"),
          {{make.values({2, 6}, {1, 3, 3, -2, 3, 1, 0, 0, 0, 0, 0, 0})}, Attrs{4, -1}, "equal ones", false}};
}

std::vector<ErrorSample> errors(SampleMaker& make) {
  return {{{make.normal({3, 4})}, Attrs{5, -1}, "k is 5"},
          {{make.normal({3, 4})}, Attrs{-1, -1}, "must lie in [0, 4]"},
          {{make.normal({})}, Attrs{1, -1}, "no axis to choose along"},
          {{make.normal({3, 4})}, Attrs{1, 2}, "axis 2"},
          {{make.mask({3})}, Attrs{1, -1}, "supported dtypes"}};
}

// Each cotangent at the place that its value came from.
void rule(const Backward& b) {
  if (!b.needs(0)) return;
  const Shape& shape = b.in_meta(0).shape;
  const int axis = wrap_axis("topk", b.attrs<Attrs>().axis, shape.size());
  // [.., k, ..] with a new axis of the places in front of that of the k.
  const Tensor hot = rules::one_hot(b.out(1), axis, shape[axis], b.grad().dtype());
  b.set_grad_in(0, sum(hot * b.grad().unsqueeze(axis), {axis + 1}));
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "indices", .packed = true}};
constexpr OutputDef kOutputs[] = {{.name = "values", .packed = true}, {.name = "indices", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, k), CT_ATTRIBUTE(Attrs, axis)};

}  // namespace

constexpr OpDef k_topk = checked({
    .name = "topk",
    .formula = "y_j = the j-th largest x_i",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::topk,
    .rule = rule,
    .dtypes = kNumericTypes,
    .cost = cost,
    .samples = samples,
    .error_samples = errors,
});

CT_ROOM(topk, &k_topk)

ValuesIndices topk(const Tensor& x, Integer k, Integer axis) {
  auto [values, indices] = dispatch_n<2>(k_topk, {x}, Attrs{k, axis});
  return {std::move(values), std::move(indices)};
}

}  // namespace ct
