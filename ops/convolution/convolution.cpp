#include <cotangent/ops/convolution/convolution.h>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/convolution/convolution_internal.h>
#include <cotangent/ops/convolution/window_internal.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/engine/fold/sum_to.h>
#include <cotangent/ops/rules_internal.h>

namespace ct {
CT_KERNEL_TABLES(convolution)

namespace convolution {
namespace {

using std::int64_t;

// ---- shape rules ----------------------------------------------------------------------------------------

// Elements that a kernel reaches over.
int64_t reach(int64_t kernel, int64_t dilation) { return dilation * (kernel - 1) + 1; }

void check_attrs(const char* op, const Attrs& a) {
  constexpr int64_t kMost = 0x7fffffff;
  convolution::windows::check(op, "stride", a.stride, 1, kMost);
  convolution::windows::check(op, "padding", a.padding, 0, kMost);
  convolution::windows::check(op, "dilation", a.dilation, 1, kMost);
  CT_CHECK(a.groups >= 1, ValueError, op, "groups is ", a.groups, "; it must be at least 1");
}

void check_image(const char* op, const char* name, const Tensor& t) {
  CT_CHECK(t.dim() == 4 && t.size(2) > 0 && t.size(3) > 0, ShapeError, op, name, " is ", describe(t),
           "; it must be [N, C, H, W], or [C, H, W] for one image, of at least one pixel");
}
void check_weight(const char* op, const Tensor& w, const char* form) {
  CT_CHECK(w.dim() == 4 && w.size(2) > 0 && w.size(3) > 0, ShapeError, op, "weight is ", describe(w),
           "; it must be ", form, ", a kernel of at least one element");
}
void check_bias(const char* op, const Tensor& bias, int64_t filters) {
  CT_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == filters), ShapeError, op, "bias is ",
           describe(bias), "; it must be [", filters, "], a number for each channel of the result");
}

// The size of y along an axis of x.
int64_t out_size(const char* op, const Tensor& x, int axis, int64_t kernel, int64_t stride, int64_t padded,
                 int64_t dilation) {
  const int64_t span = x.size(axis) + padded;
  CT_CHECK(reach(kernel, dilation) <= span, ShapeError, op, "the kernel reaches over ",
           reach(kernel, dilation), " elements along axis ", axis, ", x is ", describe(x), " and has ", span,
           " there with its padding; the kernel must not be larger");
  return (span - reach(kernel, dilation)) / stride + 1;
}
Size2d out_size(const char* op, const Tensor& x, Size2d kernel, const Attrs& a) {
  return {out_size(op, x, 2, kernel.height, a.stride.height, a.padding.height + a.padding_end.height,
                   a.dilation.height),
          out_size(op, x, 3, kernel.width, a.stride.width, a.padding.width + a.padding_end.width,
                   a.dilation.width)};
}

void infer_forward(Infer& in) {
  const char* op = in.op.name;
  const Tensor &x = in.in(0), &w = in.in(1);
  const Attrs& a = in.attrs<Attrs>();
  check_image(op, "x", x);
  check_weight(op, w, "[O, C / groups, kH, kW]");
  check_attrs(op, a);
  CT_CHECK(x.size(1) % a.groups == 0 && w.size(0) % a.groups == 0, ShapeError, op, "x is ", describe(x),
           ", weight is ", describe(w), ", groups is ", a.groups,
           "; x.size(1) and weight.size(0) must be multiples of groups");
  CT_CHECK(w.size(1) == x.size(1) / a.groups, ShapeError, op, "x is ", describe(x), ", weight is ",
           describe(w), ", groups is ", a.groups, "; weight.size(1) must be x.size(1) / groups");
  check_bias(op, in.in(2), w.size(0));
  const Size2d out = out_size(op, x, {w.size(2), w.size(3)}, a);
  in.output({x.size(0), w.size(0), out.height, out.width}, x.dtype());
}

void infer_transposed(Infer& in) {
  const char* op = in.op.name;
  const Tensor &x = in.in(0), &w = in.in(1);
  const Attrs& a = in.attrs<Attrs>();
  check_image(op, "x", x);
  check_weight(op, w, "[C, O / groups, kH, kW]");
  check_attrs(op, a);
  CT_CHECK(w.size(0) == x.size(1) && x.size(1) % a.groups == 0, ShapeError, op, "x is ", describe(x),
           ", weight is ", describe(w), ", groups is ", a.groups,
           "; weight.size(0) must be x.size(1), a multiple of groups");
  check_bias(op, in.in(2), w.size(1) * a.groups);
  const auto size = [&](int axis, int64_t stride, int64_t padded, int64_t dilation) {
    const int64_t n = (x.size(axis) - 1) * stride + reach(w.size(axis), dilation) - padded;
    CT_CHECK(n > 0, ShapeError, op, "x is ", describe(x), ", weight is ", describe(w), ", the padding takes ",
             padded, " elements of axis ", axis, " away; at least one must be left");
    return n;
  };
  in.output({x.size(0), w.size(1) * a.groups,
             size(2, a.stride.height, a.padding.height + a.padding_end.height, a.dilation.height),
             size(3, a.stride.width, a.padding.width + a.padding_end.width, a.dilation.width)},
            x.dtype());
}

void infer_weight(Infer& in) {
  const char* op = in.op.name;
  const Tensor &x = in.in(0), &g = in.in(1);
  const Attrs& a = in.attrs<Attrs>();
  check_image(op, "x", x);
  check_image(op, "g", g);
  check_attrs(op, a);
  CT_CHECK(a.kernel.height > 0 && a.kernel.width > 0, ShapeError, op, "the kernel is {", a.kernel.height,
           ", ", a.kernel.width, "}; it must have at least one element");
  CT_CHECK(x.size(1) % a.groups == 0 && g.size(1) % a.groups == 0, ShapeError, op, "x is ", describe(x),
           ", g is ", describe(g), ", groups is ", a.groups,
           "; x.size(1) and g.size(1) must be multiples of groups");
  const Size2d out = out_size(op, x, a.kernel, a);
  CT_CHECK(g.size(0) == x.size(0) && g.size(2) == out.height && g.size(3) == out.width, ShapeError, op,
           "x is ", describe(x), ", g is ", describe(g), "; g must be [", x.size(0), ", O, ", out.height,
           ", ", out.width, "]");
  in.output({g.size(1), x.size(1) / a.groups, a.kernel.height, a.kernel.width}, x.dtype());
}

// Multiplications: each element of y has one filter's.
template <Roles roles>
Cost cost(std::span<const TensorMeta> in, std::span<const TensorMeta> out, AttrsView) {
  std::array<const Shape*, 3> shapes;
  for (const int i : {0, 1}) shapes[static_cast<std::size_t>(roles.inputs[i])] = &in[i].shape;
  shapes[static_cast<std::size_t>(roles.result)] = &out[0].shape;
  const Shape& w = *shapes[static_cast<std::size_t>(Part::weight)];
  const double filter = static_cast<double>(w[1] * w[2] * w[3]);
  return {.flops = 2 * filter * static_cast<double>(numel(*shapes[static_cast<std::size_t>(Part::y)]))};
}

// ---- the gradients ----------------------------------------------------------------------------------------

const Shape& shape_of(const Roles& roles, Part part, const Backward& b) {
  for (const int i : {0, 1})
    if (roles.inputs[i] == part) return b.in_meta(i).shape;
  return b.grad().shape();
}
Geometry geometry_of(const Roles& roles, const Backward& b) {
  return {b.attrs<Attrs>(), shape_of(roles, Part::x, b), shape_of(roles, Part::weight, b),
          shape_of(roles, Part::y, b)};
}

// The op that computes `part` of the others, on the tape.
Tensor differentiable(Part part, const Tensor& first, const Tensor& second, const Attrs& attrs);

// The cotangent stands where the result stood: so each gradient is one of the three ops again.
template <Roles roles>
void rule(const Backward& b) {
  const Geometry g = geometry_of(roles, b);
  Attrs attrs = b.attrs<Attrs>();
  attrs.kernel = {g.height.kernel, g.width.kernel};
  // With this padding both sizes of an axis follow from each other, whatever was left over at the end.
  const auto padding_end = [](const Axis& a) {
    return (a.out - 1) * a.stride + reach(a.kernel, a.dilation) - a.padding - a.in;
  };
  attrs.padding_end = {padding_end(g.height), padding_end(g.width)};
  for (const int i : {0, 1}) {
    if (!b.needs(i)) continue;
    const Part part = roles.inputs[i];
    const Roles& op = part == Part::y ? kForward : part == Part::x ? kTransposed : kWeight;
    const auto tensor = [&](Part p) -> const Tensor& { return p == roles.result ? b.grad() : b.in(1 - i); };
    b.set_grad_in(i, differentiable(part, tensor(op.inputs[0]), tensor(op.inputs[1]), attrs));
  }
  if (b.input_count() > 2 && b.needs(2))
    b.set_grad_in(2, rules::unbroadcast(b.grad(), {b.in_meta(2).shape[0], 1, 1}).reshape(b.in_meta(2).shape));
}

}  // namespace

void forward(const Forward& f, const Roles& roles, Run run) {
  if (f.out().numel() == 0) return;
  std::array<const Tensor*, 3> parts;
  for (const int i : {0, 1}) parts[static_cast<std::size_t>(roles.inputs[i])] = &f.in(i);
  parts[static_cast<std::size_t>(roles.result)] = &f.out();
  run({f.op.name,
       {f.attrs<Attrs>(), parts[0]->shape(), parts[1]->shape(), parts[2]->shape()},
       roles.result,
       parts,
       f.has(2) ? &f.in(2) : nullptr});
}

void backward(const Backward& b, const Roles& roles, Run run) {
  const Geometry g = geometry_of(roles, b);
  for (const int i : {0, 1}) {
    if (!b.needs(i)) continue;
    std::array<const Tensor*, 3> parts;
    parts[static_cast<std::size_t>(roles.inputs[i])] = &b.grad_in(i);
    parts[static_cast<std::size_t>(roles.inputs[1 - i])] = &b.in(1 - i);
    parts[static_cast<std::size_t>(roles.result)] = &b.grad();
    if (b.grad_in(i).numel() > 0) run({b.op.name, g, roles.inputs[i], parts, nullptr, b.accumulate(i)});
  }
  if (b.input_count() <= 2 || !b.needs(2)) return;
  Tensor db = b.grad_in(2).view({b.in_meta(2).shape[0], 1, 1});
  sum_to_into(db, b.grad(), b.accumulate(2));
}

namespace {

constexpr InputDef kLayerInputs[] = {
    {.name = "x", .needs = "weight", .contiguous = true},
    {.name = "weight", .needs = "x", .accumulates = true, .wide_grad = true, .contiguous = true},
    {.name = "bias", .accumulates = true, .wide_grad = true, .optional = true, .contiguous = true}};
constexpr InputDef kWeightInputs[] = {{.name = "x", .needs = "g", .contiguous = true},
                                      {.name = "g", .needs = "x", .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr OutputDef kWeightOutputs[] = {{.name = "w", .contiguous = true}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, stride.height),
                                   CT_ATTRIBUTE(Attrs, stride.width),
                                   CT_ATTRIBUTE(Attrs, padding.height),
                                   CT_ATTRIBUTE(Attrs, padding.width),
                                   CT_ATTRIBUTE(Attrs, padding_end.height),
                                   CT_ATTRIBUTE(Attrs, padding_end.width),
                                   CT_ATTRIBUTE(Attrs, dilation.height),
                                   CT_ATTRIBUTE(Attrs, dilation.width),
                                   CT_ATTRIBUTE(Attrs, groups),
                                   CT_ATTRIBUTE(Attrs, kernel.height),
                                   CT_ATTRIBUTE(Attrs, kernel.width)};
// All but the kernel, which the layers' weights tell.
constexpr std::span<const AttrDef> kLayerAttributes = std::span(kAttributes).first<9>();

constexpr OpDef k_conv2d = checked({
    .name = "conv2d",
    .formula = "y[n, o, p] = sum_ci x[n, c, p s + i d - pad] w[o, c, i] + b[o]",
    .inputs = kLayerInputs,
    .outputs = kOutputs,
    .attributes = kLayerAttributes,
    .infer = infer_forward,
    .kernels = &kernel_tables::convolution,
    .fast_f64 = true,
    .rule = rule<kForward>,
    .low_rule = true,
    .autocast = AutocastPolicy::lower,
    .cost = cost<kForward>,
});

constexpr OpDef k_conv_transpose2d = checked({
    .name = "conv_transpose2d",
    .formula = "y[n, o, p s + i d - pad] = sum_ci x[n, c, p] w[c, o, i] + b[o]",
    .inputs = kLayerInputs,
    .outputs = kOutputs,
    .attributes = kLayerAttributes,
    .infer = infer_transposed,
    .kernels = &kernel_tables::convolution,
    .fast_f64 = true,
    .rule = rule<kTransposed>,
    .low_rule = true,
    .autocast = AutocastPolicy::lower,
    .cost = cost<kTransposed>,
});

constexpr OpDef k_conv2d_weight = checked({
    .name = "conv2d_weight",
    .formula = "w[o, c, i] = sum_np x[n, c, p s + i d - pad] g[n, o, p]",
    .inputs = kWeightInputs,
    .outputs = kWeightOutputs,
    .attributes = kAttributes,
    .infer = infer_weight,
    .kernels = &kernel_tables::convolution,
    .fast_f64 = true,
    .rule = rule<kWeight>,
    .low_rule = true,
    .autocast = AutocastPolicy::lower,
    .cost = cost<kWeight>,
});

Tensor differentiable(Part part, const Tensor& first, const Tensor& second, const Attrs& attrs) {
  if (part == Part::weight) return dispatch(k_conv2d_weight, {first, second}, attrs);
  return dispatch(part == Part::y ? k_conv2d : k_conv_transpose2d, {first, second, Tensor{}}, attrs);
}

}  // namespace
}  // namespace convolution

CT_ROOM(convolution, &convolution::k_conv2d, &convolution::k_conv_transpose2d, &convolution::k_conv2d_weight)

// ---- the functions ------------------------------------------------------------------------------------------

namespace {

using convolution::Attrs;
using convolution::windows::row;

// One image is a batch of one.
Tensor layer(const OpDef& op, const Tensor& x, const Tensor& weight, const Tensor& bias, const Attrs& attrs) {
  if (!x.defined() || x.dim() != 3) return dispatch(op, {x, weight, bias}, attrs);
  return dispatch(op, {x.unsqueeze(0), weight, bias}, attrs).squeeze(0);
}

}  // namespace

ConvPadding::ConvPadding(const char* name) : same(std::string_view("same") == name) {
  CT_CHECK(same || std::string_view("valid") == name, ValueError, "conv2d", "padding is \"", name,
           "\"; it must be numbers, \"same\" or \"valid\"");
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  Attrs attrs{options.stride,   options.padding.size, options.padding.size,
              options.dilation, options.groups,       0};
  if (options.padding.same && weight.defined() && weight.dim() == 4) {
    CT_CHECK(options.stride == Size2d(1), ValueError, "conv2d", "padding is \"same\" and stride is {",
             options.stride.height, ", ", options.stride.width, "}; \"same\" is for a stride of 1");
    const Size2d total{options.dilation.height * (weight.size(2) - 1),
                       options.dilation.width * (weight.size(3) - 1)};
    attrs.padding = {total.height / 2, total.width / 2};
    attrs.padding_end = {total.height - attrs.padding.height, total.width - attrs.padding.width};
  }
  return layer(convolution::k_conv2d, x, weight, bias, attrs);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& options) {
  const Size2d pad = options.padding.size;
  CT_CHECK(pad.height == pad.width, ValueError, "conv1d", "padding is {", pad.height, ", ", pad.width,
           "}; one number is wanted");
  ConvPadding padding = options.padding;
  padding.size.height = 0;
  return conv2d(row("conv1d", "x", x, 2), row("conv1d", "weight", weight, 3), bias,
                {{1, options.stride}, padding, {1, options.dilation}, options.groups})
      .squeeze(-2);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  const Size2d more = options.output_padding;
  const auto fits = [](std::int64_t extra, std::int64_t stride, std::int64_t dilation) {
    return extra >= 0 && extra < std::max<std::int64_t>({stride, dilation, 1});
  };
  CT_CHECK(fits(more.height, options.stride.height, options.dilation.height) &&
               fits(more.width, options.stride.width, options.dilation.width),
           ValueError, "conv_transpose2d", "output_padding is {", more.height, ", ", more.width,
           "}; it must not be negative, and less than stride or dilation");
  const Size2d pad = options.padding;
  return layer(convolution::k_conv_transpose2d, x, weight, bias,
               Attrs{options.stride,
                     pad,
                     {pad.height - more.height, pad.width - more.width},
                     options.dilation,
                     options.groups,
                     0});
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& options) {
  return conv_transpose2d(row("conv_transpose1d", "x", x, 2), row("conv_transpose1d", "weight", weight, 3),
                          bias,
                          {{1, options.stride},
                           {0, options.padding},
                           {0, options.output_padding},
                           options.groups,
                           {1, options.dilation}})
      .squeeze(-2);
}

}  // namespace ct
