#include <cotangent/ops/sorting/topk.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/sorting/topk_internal.h>

namespace ct {
CT_KERNEL_TABLES(topk)
namespace {

using sorting::Attrs;

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

constexpr InputDef kInputs[] = {{.name = "x", .needs = "indices", .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "values", .contiguous = true},
                                  {.name = "indices", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, k), CT_ATTRIBUTE(Attrs, axis),
                                   CT_ATTRIBUTE(Attrs, descending)};

}  // namespace

constexpr OpDef k_topk = checked({
    .name = "topk",
    .formula = "y_j = the j-th largest x_i",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::topk,
    .rule = sorting::rule,
    .dtypes = kNumericTypes,
});

CT_ROOM(topk, &k_topk)

ValuesIndices topk(const Tensor& x, Integer k, Integer axis, Flag largest, Flag) {
  auto [values, indices] = dispatch_n<2>(k_topk, {x}, Attrs{k, axis, largest});
  return {std::move(values), std::move(indices)};
}

CT_MEMBER(ValuesIndices, topk, (Integer k, Integer axis, Flag largest, Flag sorted) const, k, axis, largest,
          sorted)

}  // namespace ct
