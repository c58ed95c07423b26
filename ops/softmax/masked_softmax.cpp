#include <cotangent/ops/softmax/masked_softmax.h>

#include <array>
#include <cmath>
#include <limits>

#include <cotangent/core/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/rules_internal.h>
#include <cotangent/ops/softmax/masked_softmax_internal.h>

namespace ct {
CT_KERNEL_TABLES(masked_softmax)
namespace {

using masked_softmax_kernels::Attrs;

constexpr const char* kName = "masked_softmax";
constexpr double kInf = std::numeric_limits<double>::infinity();

void check_mask(const Tensor& x, const Tensor& mask) {
  CT_CHECK(mask.defined(), Error, kName, "the mask is undefined; without one, use softmax(scale * x, axis)");
  CT_CHECK(mask.dtype() == DType::boolean || is_floating(mask.dtype()), DTypeError, kName, "the mask is ",
           describe(mask), "; it must be bool (true: seen) or floating (added)");
  bool fits = mask.dim() <= x.dim();
  for (int i = 1; fits && i <= mask.dim(); ++i) fits = mask.size(-i) == 1 || mask.size(-i) == x.size(-i);
  CT_CHECK(fits, ShapeError, kName, "the mask is ", describe(mask), ", x is ", describe(x),
           "; the mask must broadcast to x");
}

void infer(Infer& in) {
  const double scale = in.attrs<Attrs>().scale;
  check_mask(in.in(0), in.in(1));
  CT_CHECK(std::isfinite(scale), ValueError, kName, "scale is ", scale, "; it must be finite");
  in.output(in.in(0).shape(), in.in(0).dtype());
}

Cost cost(std::span<const TensorMeta> in, std::span<const TensorMeta>, AttrsView) {
  const double n = static_cast<double>(numel(in[0].shape)), m = static_cast<double>(numel(in[1].shape));
  return {7 * n,
          2 * n * static_cast<double>(size_of(in[0].dtype)) + m * static_cast<double>(size_of(in[1].dtype))};
}

std::vector<Sample> samples(SampleMaker& make) {
  const Tensor hides = make.values({2, 1, 5}, {0, 1, -kInf, 2, 0.5, -kInf, -kInf, -kInf, -kInf, -kInf});
  return {
      {{make.normal({5, 10}), make.mask({5, 10})}, Attrs{1}, "bool mask"},
      {{make.normal({2, 3, 4, 17}), make.mask({4, 17})}, Attrs{0.3}, "bool mask of the last axes"},
      {{make.normal({2, 3, 4, 17}), make.mask({2, 1, 1, 17})}, Attrs{2}, "bool mask of columns, per batch"},
      {{make.normal({2, 3, 64}), make.normal({2, 3, 64})},
       Attrs{0.5},
       "additive mask, rows of whole vectors"},
      {{make.normal({2, 3, 4, 9}), make.normal({3, 1, 9})}, Attrs{0.5}, "additive mask broadcast twice"},
      {{make.normal({3, 9}), make.normal({})}, Attrs{-1}, "one number for a mask, negative scale"},
      {{make.normal({3, 9}), make.normal({3, 1})}, Attrs{1}, "additive mask of rows"},
      {{make.normal({2, 3, 5}), hides}, Attrs{1}, "rows that are hidden", false},
      {{make.normal({2, 700}), make.normal({700})}, Attrs{0.7}, "long rows", false},
      {{make.normal({2, 1503}), make.mask({2, 1503})}, Attrs{0.7}, "longer, odd rows", false},
      {{make.normal({3, 2048}), make.mask({3, 2048})}, Attrs{0.7}, "long rows of whole vectors", false},
      {{make.normal({}), make.normal({})}, Attrs{2}, "scalars"},
      {{make.normal({3, 0}), make.normal({3, 1})}, Attrs{1}, "empty rows"},
      {{make.normal({0, 4}), make.mask({4})}, Attrs{1}, "no rows"},
  };
}

std::vector<ErrorSample> error_samples(SampleMaker& make) {
  return {{{make.normal({2, 3}), make.mask({2})}, Attrs{1}, "the mask must broadcast to x"},
          {{make.normal({3}), make.mask({1, 3})}, Attrs{1}, "the mask must broadcast to x"},
          {{make.normal({2, 3}), make.index({2, 3}, 2)}, Attrs{1}, "bool (true: seen) or floating"},
          {{make.normal({2, 3}), make.mask({2, 3})}, Attrs{kInf}, "it must be finite"},
          {{make.index({2, 3}, 5), make.mask({2, 3})}, Attrs{1}, "supported dtypes are f32"}};
}

void rule(const Backward& b) {
  const Tensor &g = b.grad(), &y = b.out();
  const Tensor ds = y.dim() > 0 ? y * (g - sum(g * y, {-1}, true)) : y * (g - g * y);
  if (b.needs(0)) b.set_grad_in(0, ds * b.attrs<Attrs>().scale);
  if (b.needs(1)) b.set_grad_in(1, rules::unbroadcast(ds, b.in_meta(1).shape).to(b.in_meta(1).dtype));
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "y", .packed = true},
                                {.name = "mask", .needs = "y", .any_dtype = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .packed = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, scale)};

constexpr OpDef k_masked_softmax = checked({
    .name = kName,
    .formula = "y = softmax(scale x + mask)",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::masked_softmax,
    .rule = rule,
    .autocast = AutocastPolicy::f32,
    .cost = cost,
    .samples = samples,
    .error_samples = error_samples,
});

}  // namespace

Tensor masked_softmax(const Tensor& x, const Tensor& mask, Real scale, Integer axis) {
  const Attrs attrs{scale};
  if (axis == -1 || !x.defined() || wrap_axis(kName, axis, x.dim()) == x.dim() - 1)
    return dispatch(k_masked_softmax, {x, mask}, attrs);
  check_mask(x, mask);
  return dispatch(k_masked_softmax, {x.transpose(axis, -1), mask.expand(x.shape()).transpose(axis, -1)},
                  attrs)
      .transpose(axis, -1);
}

CT_ROOM(masked_softmax, &k_masked_softmax)
}  // namespace ct
