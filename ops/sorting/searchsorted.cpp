#include <cotangent/ops/sorting/searchsorted.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/sorting/searchsorted_internal.h>

namespace ct {
CT_KERNEL_TABLES(searchsorted)
namespace {

using sorting::searched::Attrs;

void infer(Infer& in) {
  const Tensor &list = in.in(0), &values = in.in(1);
  CT_CHECK(list.dim() > 0, ShapeError, in.op.name, "sorted is ", describe(list),
           "; it must have at least rank 1");
  if (list.dim() > 1) {
    bool fits = list.dim() == values.dim();
    for (int i = 0; fits && i + 1 < list.dim(); ++i) fits = list.shape()[i] == values.shape()[i];
    CT_CHECK(fits, ShapeError, in.op.name, "sorted is ", describe(list), ", values are ", describe(values),
             "; they must agree in all axes but the last, or sorted must have rank 1");
  }
  in.output(values.shape(), DType::i64);
}

constexpr InputDef kInputs[] = {{.name = "sorted", .gradient = false, .contiguous = true},
                                {.name = "values", .gradient = false, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "positions", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, right)};

constexpr OpDef k_searchsorted = checked({
    .name = "searchsorted",
    .formula = "i = how many elements of sorted are < v, or <= v",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::searchsorted,
    .promotes = true,
    .dtypes = kNumericTypes,
});

}  // namespace

CT_ROOM(searchsorted, &k_searchsorted)

Tensor searchsorted(const Tensor& sorted, const Tensor& values, Flag right) {
  return dispatch(k_searchsorted, {sorted, values}, Attrs{right});
}
Tensor bucketize(const Tensor& x, const Tensor& boundaries, Flag right) {
  CT_CHECK(boundaries.dim() == 1, ShapeError, "bucketize", "boundaries are ", describe(boundaries),
           "; they must have rank 1: searchsorted() takes a list for each row");
  return searchsorted(boundaries, x, right);
}

}  // namespace ct
