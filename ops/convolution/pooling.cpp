#include <cotangent/ops/convolution/pooling.h>

#include <algorithm>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/convolution/pooling_internal.h>
#include <cotangent/ops/convolution/window_internal.h>
#include <cotangent/ops/dispatch.h>

namespace ct {
CT_KERNEL_TABLES(pooling)
namespace convolution::pooling {
namespace {

using std::int64_t;

constexpr int64_t kMost = int64_t{1} << 28;  // places are 32-bit numbers

// ---- shape rules ------------------------------------------------------------------------------------------

void check(const char* op, const char* what, Size2d size, int64_t least) {
  convolution::windows::check(op, what, size, least, kMost);
}

// Number of windows of an axis of `in` elements.
int64_t windows(const char* op, int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                bool ceil) {
  const int64_t span = in + 2 * pad, reach = dilation * (kernel - 1) + 1;
  const int64_t room =
      span - reach + (ceil ? stride - 1 : 0);  // ceil_mode: the last window may begin before it has room
  CT_CHECK(room >= 0, ShapeError, op, "a window reaches over ", reach, " elements, an axis of the image has ",
           span, " with its padding; the window must not be larger", ceil ? " by a stride or more" : "");
  int64_t out = room / stride + 1;
  if (ceil && (out - 1) * stride >= in + pad) --out;  // the last one must not begin in the padding
  return out;
}

// The shape of a pool of an image of shape `image`.
Shape pool_shape(const char* op, Shape image, const Attrs& a) {
  const int h = image.size() - 2, w = image.size() - 1;
  check(op, a.adaptive ? "output_size" : "kernel_size", a.kernel, 1);
  check(op, "stride", a.stride, 1);
  check(op, "padding", a.padding, 0);
  check(op, "dilation", a.dilation, 1);
  CT_CHECK(a.divisor_override >= 0, ValueError, op, "divisor_override is ", a.divisor_override,
           "; it must be positive, or 0 for none");
  if (a.adaptive) {
    CT_CHECK(a.padding == Size2d(0) && a.dilation == Size2d(1), ValueError, op,
             "an adaptive pool got a padding or a dilation; it has none");
    image[h] = a.kernel.height, image[w] = a.kernel.width;
    return image;
  }
  CT_CHECK(2 * a.padding.height <= a.kernel.height && 2 * a.padding.width <= a.kernel.width, ValueError, op,
           "padding is {", a.padding.height, ", ", a.padding.width, "}, kernel_size is {", a.kernel.height,
           ", ", a.kernel.width, "}; it must be at most half of that");
  image[h] = windows(op, image[h], a.kernel.height, a.stride.height, a.padding.height, a.dilation.height,
                     a.ceil_mode);
  image[w] =
      windows(op, image[w], a.kernel.width, a.stride.width, a.padding.width, a.dilation.width, a.ceil_mode);
  return image;
}

void check_image(const char* op, const char* name, const Tensor& x) {
  CT_CHECK((x.dim() == 3 || x.dim() == 4) && x.size(-1) > 0 && x.size(-2) > 0, ShapeError, op, name, " is ",
           describe(x), "; it must be [N, C, H, W], or [C, H, W] for one image, of at least one pixel");
  CT_CHECK(x.size(-1) <= kMost && x.size(-2) <= kMost && x.size(-1) * x.size(-2) <= kMost, ShapeError, op,
           name, " is ", describe(x), "; an image of more than ", kMost, " pixels is not supported");
}
void check_indices(const char* op, const Tensor& indices, const Shape& pool) {
  if (!indices.defined()) return;
  CT_CHECK(indices.dtype() == DType::i64, DTypeError, op, "indices is ", describe(indices),
           "; it must be i64: convert with .to(i64)");
  CT_CHECK(indices.shape() == pool, ShapeError, op, "indices is ", describe(indices), "; it must be ", pool);
}

void infer_max(Infer& in) {
  check_image(in.op.name, "x", in.in(0));
  const Shape pool = pool_shape(in.op.name, in.in(0).shape(), in.attrs<Attrs>());
  in.output(pool, in.in(0).dtype());
  in.output(pool, DType::i64);
}
void infer_average(Infer& in) {
  check_image(in.op.name, "x", in.in(0));
  const Shape pool = pool_shape(in.op.name, in.in(0).shape(), in.attrs<Attrs>());
  check_indices(in.op.name, in.in(1), pool);
  in.output(pool, in.in(0).dtype());
}
void infer_gradient(Infer& in) {
  const Tensor& g = in.in(0);
  const Attrs& a = in.attrs<Attrs>();
  check_image(in.op.name, "g", g);
  check(in.op.name, "size", a.size, 1);
  Shape image = g.shape();
  image[g.dim() - 2] = a.size.height, image[g.dim() - 1] = a.size.width;
  const Shape pool = pool_shape(in.op.name, image, a);
  CT_CHECK(g.shape() == pool, ShapeError, in.op.name, "g is ", describe(g), "; the pool of such an image is ",
           pool);
  check_indices(in.op.name, in.in(1), pool);
  in.output(image, g.dtype());
}

Attrs with_size(const Backward& b) {
  Attrs attrs = b.attrs<Attrs>();
  const Shape& image = b.in_meta(0).shape;
  attrs.size = {image[image.size() - 2], image[image.size() - 1]};
  return attrs;
}
// The indices that a pool has chosen by: its second input, or none.
Tensor indices_of(const Backward& b) { return b.saved_inputs[1]; }

// ---- the ops, each the gradient of the other ----------------------------------------------------------------

void max_rule(const Backward& b);
void average_rule(const Backward& b);
void gradient_rule(const Backward& b);

constexpr InputDef kMaxInputs[] = {{.name = "x", .needs = "indices", .contiguous = true}};
constexpr OutputDef kMaxOutputs[] = {{.name = "y", .contiguous = true},
                                     {.name = "indices", .gradient = false}};
constexpr InputDef kIndices = {
    .name = "indices", .gradient = false, .optional = true, .any_dtype = true, .contiguous = true};
constexpr InputDef kInputs[] = {kMaxInputs[0], kIndices};
constexpr InputDef kGradientInputs[] = {{.name = "g", .needs = "indices", .contiguous = true}, kIndices};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true}};
constexpr AttrDef kAttributes[] = {
    CT_ATTRIBUTE(Attrs, kernel.height),     CT_ATTRIBUTE(Attrs, kernel.width),
    CT_ATTRIBUTE(Attrs, stride.height),     CT_ATTRIBUTE(Attrs, stride.width),
    CT_ATTRIBUTE(Attrs, padding.height),    CT_ATTRIBUTE(Attrs, padding.width),
    CT_ATTRIBUTE(Attrs, dilation.height),   CT_ATTRIBUTE(Attrs, dilation.width),
    CT_ATTRIBUTE(Attrs, size.height),       CT_ATTRIBUTE(Attrs, size.width),
    CT_ATTRIBUTE(Attrs, adaptive),          CT_ATTRIBUTE(Attrs, ceil_mode),
    CT_ATTRIBUTE(Attrs, count_include_pad), CT_ATTRIBUTE(Attrs, divisor_override)};

consteval OpDef define(const char* name, const char* formula, std::span<const InputDef> inputs,
                       std::span<const OutputDef> outputs, InferFn infer, BackwardFn rule) {
  return checked({.name = name,
                  .formula = formula,
                  .inputs = inputs,
                  .outputs = outputs,
                  .attributes = kAttributes,
                  .infer = infer,
                  .kernels = &kernel_tables::pooling,
                  .rule = rule,
                  .flops_each = 1});
}
constexpr OpDef k_max_pool2d =
    define("max_pool2d", "y[p] = max of x in window p", kMaxInputs, kMaxOutputs, infer_max, max_rule);
constexpr OpDef k_avg_pool2d = define("avg_pool2d", "y[p] = mean of x in window p, or x[indices[p]]", kInputs,
                                      kOutputs, infer_average, average_rule);
constexpr OpDef k_pool2d_gradient =
    define("pool2d_gradient", "y[a] = sum_p [a in window p] g[p] / n_p, or [indices[p] = a] g[p]",
           kGradientInputs, kOutputs, infer_gradient, gradient_rule);

void max_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, dispatch(k_pool2d_gradient, {b.grad(), b.out(1)}, with_size(b)));
}
void average_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, dispatch(k_pool2d_gradient, {b.grad(), indices_of(b)}, with_size(b)));
}
void gradient_rule(const Backward& b) {
  if (b.needs(0)) b.set_grad_in(0, dispatch(k_avg_pool2d, {b.grad(), indices_of(b)}, b.attrs<Attrs>()));
}

}  // namespace

void max_forward(const Forward& f, Run run) {
  if (f.out().numel() == 0) return;
  run(Work::largest, {f.attrs<Attrs>(), f.in(0).shape(), f.out().shape()}, f.in(0), f.out(1), f.out());
}
void average_forward(const Forward& f, Run run) {
  if (f.out().numel() == 0) return;
  run(Work::pooled, {f.attrs<Attrs>(), f.in(0).shape(), f.out().shape()}, f.in(0), f.in(1), f.out());
}
void gradient_forward(const Forward& f, Run run) {
  if (f.out().numel() == 0) return;
  run(Work::gathered, {f.attrs<Attrs>(), f.out().shape(), f.in(0).shape()}, f.in(0), f.in(1), f.out());
}
static void gather_back(const Backward& b, const Tensor& indices, Run run) {
  if (!b.needs(0) || b.grad_in(0).numel() == 0) return;
  run(Work::gathered, {b.attrs<Attrs>(), b.in_meta(0).shape, b.grad().shape()}, b.grad(), indices,
      b.grad_in(0));
}
void max_backward(const Backward& b, Run run) { gather_back(b, b.out(1), run); }
void average_backward(const Backward& b, Run run) { gather_back(b, indices_of(b), run); }
void gradient_backward(const Backward& b, Run run) {
  if (!b.needs(0) || b.grad_in(0).numel() == 0) return;
  run(Work::pooled, {b.attrs<Attrs>(), b.grad().shape(), b.in_meta(0).shape}, b.grad(), indices_of(b),
      b.grad_in(0));
}

}  // namespace convolution::pooling

CT_ROOM(pooling, &convolution::pooling::k_max_pool2d, &convolution::pooling::k_avg_pool2d,
        &convolution::pooling::k_pool2d_gradient)

// ---- the functions ------------------------------------------------------------------------------------------

namespace {

using convolution::pooling::Attrs;

Attrs adaptive(Size2d output_size) { return {.kernel = output_size, .adaptive = true}; }

Tensor row(const char* op, const Tensor& x) { return convolution::windows::row(op, "x", x, 2); }
PoolStride along(std::optional<std::int64_t> stride) {
  return stride ? PoolStride(1, *stride) : PoolStride();
}

}  // namespace

ValuesIndices max_pool2d_with_indices(const Tensor& x, Size2d kernel_size, const MaxPool2dOptions& options) {
  auto [values, indices] = dispatch_n<2>(convolution::pooling::k_max_pool2d, {x},
                                         Attrs{.kernel = kernel_size,
                                               .stride = options.stride.value_or(kernel_size),
                                               .padding = options.padding,
                                               .dilation = options.dilation,
                                               .ceil_mode = options.ceil_mode});
  return {std::move(values), std::move(indices)};
}
Tensor max_pool2d(const Tensor& x, Size2d kernel_size, const MaxPool2dOptions& options) {
  return max_pool2d_with_indices(x, kernel_size, options).values;
}
Tensor avg_pool2d(const Tensor& x, Size2d kernel_size, const AvgPool2dOptions& options) {
  return dispatch(convolution::pooling::k_avg_pool2d, {x, Tensor{}},
                  Attrs{.kernel = kernel_size,
                        .stride = options.stride.value_or(kernel_size),
                        .padding = options.padding,
                        .ceil_mode = options.ceil_mode,
                        .count_include_pad = options.count_include_pad,
                        .divisor_override = options.divisor_override});
}
Tensor adaptive_avg_pool2d(const Tensor& x, Size2d output_size) {
  return dispatch(convolution::pooling::k_avg_pool2d, {x, Tensor{}}, adaptive(output_size));
}
Tensor adaptive_max_pool2d(const Tensor& x, Size2d output_size) {
  return dispatch_n<2>(convolution::pooling::k_max_pool2d, {x}, adaptive(output_size))[0];
}

Tensor max_pool1d(const Tensor& x, Integer kernel_size, const MaxPool1dOptions& options) {
  return max_pool2d(row("max_pool1d", x), {1, kernel_size},
                    {along(options.stride), {0, options.padding}, {1, options.dilation}, options.ceil_mode})
      .squeeze(-2);
}
Tensor avg_pool1d(const Tensor& x, Integer kernel_size, const AvgPool1dOptions& options) {
  return avg_pool2d(
             row("avg_pool1d", x), {1, kernel_size},
             {along(options.stride), {0, options.padding}, options.ceil_mode, options.count_include_pad})
      .squeeze(-2);
}
Tensor adaptive_avg_pool1d(const Tensor& x, Integer output_size) {
  return adaptive_avg_pool2d(row("adaptive_avg_pool1d", x), {1, output_size}).squeeze(-2);
}
Tensor adaptive_max_pool1d(const Tensor& x, Integer output_size) {
  return adaptive_max_pool2d(row("adaptive_max_pool1d", x), {1, output_size}).squeeze(-2);
}

}  // namespace ct
