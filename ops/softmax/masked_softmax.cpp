#include <cotangent/ops/softmax/masked_softmax.h>

#include <cmath>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/reduce/reduce.h>
#include <cotangent/ops/rules_internal.h>
#include <cotangent/ops/softmax/masked_softmax_internal.h>

namespace ct {
CT_KERNEL_TABLES(masked_softmax)
namespace {

using softmax_impl::masked::Attrs;

constexpr const char* kName = "masked_softmax";

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

void rule(const Backward& b) {
  const Tensor &g = b.grad(), &y = b.out();
  const Tensor ds = y.dim() > 0 ? y * (g - sum(g * y, {-1}, true)) : y * (g - g * y);
  if (b.needs(0)) b.set_grad_in(0, ds * b.attrs<Attrs>().scale);
  if (b.needs(1)) b.set_grad_in(1, rules::unbroadcast(ds, b.in_meta(1).shape).to(b.in_meta(1).dtype));
}

constexpr InputDef kInputs[] = {{.name = "x", .needs = "y", .contiguous = true},
                                {.name = "mask", .needs = "y", .any_dtype = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
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
    .flops_each = 7,
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
