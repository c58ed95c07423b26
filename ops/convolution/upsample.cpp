#include <cotangent/ops/convolution/upsample.h>

#include <algorithm>
#include <cmath>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/convolution/upsample_internal.h>
#include <cotangent/ops/convolution/window_internal.h>
#include <cotangent/ops/dispatch.h>

namespace ct {
CT_KERNEL_TABLES(upsample)
namespace convolution::resizing {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;  // places are 32-bit numbers

// ---- shape rules: either image has the size that an attribute tells, the other the input's ------------------

void infer_other(Infer& in, const char* name, Size2d Attrs::*size, Size2d Attrs::*same) {
  const Tensor& t = in.in(0);
  const Attrs& a = in.attrs<Attrs>();
  CT_CHECK(t.dim() == 4 && t.size(2) > 0 && t.size(3) > 0, ShapeError, in.op.name, name, " is ", describe(t),
           "; it must be [N, C, H, W] of at least one pixel");
  convolution::windows::check(in.op.name, "size", a.*size, 1, kMost);
  CT_CHECK(same == nullptr || a.*same == Size2d(t.size(2), t.size(3)), ShapeError, in.op.name, name, " is ",
           describe(t), ", size is {", (a.size).height, ", ", (a.size).width,
           "}; its images must be of that size");
  CT_CHECK(t.size(2) * t.size(3) <= kMost && (a.*size).height * (a.*size).width <= kMost, ShapeError,
           in.op.name, name, " is ", describe(t), "; an image of more than ", kMost,
           " pixels is not supported");
  for (const double factor : {a.factor_height, a.factor_width})
    CT_CHECK(factor >= 0 && std::isfinite(factor), ValueError, in.op.name, "scale_factor is ", factor,
             "; it must be positive and finite");
  CT_CHECK(a.linear || !a.align_corners, ValueError, in.op.name,
           "align_corners is set and the mode is nearest; it is for linear and bilinear");
  in.output({t.size(0), t.size(1), (a.*size).height, (a.*size).width}, t.dtype());
}

// ---- the ops, each the gradient of the other ----------------------------------------------------------------

void forward_rule(const Backward& b);
void gradient_rule(const Backward& b);

constexpr InputDef kInputs[] = {{.name = "x", .contiguous = true}};
constexpr InputDef kGradientInputs[] = {{.name = "g", .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, size.height),   CT_ATTRIBUTE(Attrs, size.width),
                                   CT_ATTRIBUTE(Attrs, image.height),  CT_ATTRIBUTE(Attrs, image.width),
                                   CT_ATTRIBUTE(Attrs, factor_height), CT_ATTRIBUTE(Attrs, factor_width),
                                   CT_ATTRIBUTE(Attrs, linear),        CT_ATTRIBUTE(Attrs, align_corners)};

constexpr OpDef k_upsample2d = checked({
    .name = "upsample2d",
    .formula = "y[p] = sum_a s[p, a] x[a]",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = [](Infer& in) { infer_other(in, "x", &Attrs::size, nullptr); },
    .kernels = &kernel_tables::upsample,
    .rule = forward_rule,
    .flops_each = 1,
});
constexpr OpDef k_upsample2d_gradient = checked({
    .name = "upsample2d_gradient",
    .formula = "y[a] = sum_p s[p, a] g[p]",
    .inputs = kGradientInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = [](Infer& in) { infer_other(in, "g", &Attrs::image, &Attrs::size); },
    .kernels = &kernel_tables::upsample,
    .rule = gradient_rule,
    .flops_each = 1,
});

void forward_rule(const Backward& b) {
  Attrs attrs = b.attrs<Attrs>();
  attrs.image = {b.in_meta(0).shape[2], b.in_meta(0).shape[3]};
  if (b.needs(0)) b.set_grad_in(0, dispatch(k_upsample2d_gradient, {b.grad()}, attrs));
}
void gradient_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, dispatch(k_upsample2d, {b.grad()}, b.attrs<Attrs>()));
}

}  // namespace

void image_to_result(const Tensor& from, const Tensor& to, const Attrs& a, Run run) {
  if (to.numel() > 0) run(false, Grid(a, from.shape(), to.shape()), from, to);
}
void result_to_image(const Tensor& from, const Tensor& to, const Attrs& a, Run run) {
  if (to.numel() > 0) run(true, Grid(a, to.shape(), from.shape()), from, to);
}

}  // namespace convolution::resizing

CT_ROOM(upsample, &convolution::resizing::k_upsample2d, &convolution::resizing::k_upsample2d_gradient)

// ---- the functions ------------------------------------------------------------------------------------------

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  constexpr const char* kOp = "interpolate";
  CT_CHECK(x.defined(), ValueError, kOp, "x is undefined; it is needed");
  CT_CHECK(x.dim() == 3 || x.dim() == 4, ShapeError, kOp, "x is ", describe(x),
           "; it must be [N, C, H, W], or [N, C, L] for a line");
  const bool line = x.dim() == 3;
  const Interpolation other = line ? Interpolation::bilinear : Interpolation::linear;
  CT_CHECK(options.mode != other, ValueError, kOp, "x is ", describe(x), " and the mode is ",
           line ? "bilinear" : "linear", "; linear is for a line, bilinear for an image");
  const OptionalScale2d& factor = options.scale_factor;
  const bool scaled = factor.height != 0 || factor.width != 0;
  CT_CHECK(scaled != options.size.has_value(), ValueError, kOp, scaled ? "both" : "neither",
           " of size and scale_factor given; one is needed");
  CT_CHECK(!scaled || (factor.height > 0 && factor.width > 0 && std::isfinite(factor.height + factor.width)),
           ValueError, kOp, "scale_factor is {", factor.height, ", ", factor.width,
           "}; both must be positive and finite");
  convolution::resizing::Attrs attrs{.factor_height = line ? 0 : factor.height,
                                     .factor_width = factor.width,
                                     .linear = options.mode != Interpolation::nearest,
                                     .align_corners = options.align_corners};
  const Tensor image = line ? x.unsqueeze(-2) : x;
  const auto times = [](std::int64_t n, double f) {
    return static_cast<std::int64_t>(std::min(std::floor(static_cast<double>(n) * f), 1e15));
  };
  attrs.size = scaled ? Size2d(times(image.size(2), factor.height), times(image.size(3), factor.width))
                      : *options.size;
  if (line) attrs.size.height = 1;
  const Tensor y = dispatch(convolution::resizing::k_upsample2d, {image}, attrs);
  return line ? y.squeeze(-2) : y;
}

Tensor upsample_nearest(const Tensor& x, Size2d size) { return interpolate(x, {.size = size}); }
Tensor upsample_bilinear(const Tensor& x, Size2d size, Flag align_corners) {
  return interpolate(x, {.size = size, .mode = Interpolation::bilinear, .align_corners = align_corners});
}

}  // namespace ct
