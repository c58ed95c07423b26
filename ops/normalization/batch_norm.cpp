#include <cotangent/ops/normalization/batch_norm.h>

#include <algorithm>
#include <utility>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/dispatch.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/engine/fold/broadcast_grad.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/normalization/batch_norm_internal.h>
#include <cotangent/ops/normalization/layer_norm.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct {
CT_KERNEL_TABLES(batch_norm)
namespace {

// t, of one element for each channel, beside x [N, C, ...].
Tensor beside(const Tensor& t, const Tensor& x) {
  Shape shape = Shape::filled(x.dim(), 1);
  shape[1] = x.size(1);
  return t.reshape(shape);
}

// y w + b, in the dtype of y.
Tensor affine(Tensor y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) y = y * beside(weight.to(y.dtype()), y);
  if (bias.defined()) y = y + beside(bias.to(y.dtype()), y);
  return y;
}

void check_parameters(const char* op, const Tensor& x,
                      std::initializer_list<std::pair<const char*, const Tensor*>> all,
                      bool any_dtype = false) {
  for (const auto& [name, t] : all) {
    if (!t->defined()) continue;
    CT_CHECK(t->dim() == 1 && t->size(0) == x.size(1), ShapeError, op, name, " is ", describe(*t), ", x is ",
             describe(x), "; it must be [", x.size(1), "], a number for each channel");
    CT_CHECK(
        any_dtype || t->dtype() == x.dtype() || (t->dtype() == DType::f32 && is_low_precision(x.dtype())),
        DTypeError, op, name, " is ", describe(*t), ", x is ", describe(x),
        "; it must have x's dtype, or f32 where that has 16 bits");
    CT_CHECK(t->device() == x.device(), DeviceError, op, name, " is ", describe(*t), ", x is ", describe(x),
             "; both must be on one device");
  }
}
void check_input(const char* op, const Tensor& x, double eps) {
  CT_CHECK(x.defined(), ValueError, op, "x is undefined; it is needed");
  CT_CHECK(is_floating(x.dtype()), DTypeError, op, "x is ", describe(x), "; a floating dtype is needed");
  CT_CHECK(x.dim() >= 2, ShapeError, op, "x is ", describe(x), "; it must be [N, C, ...]");
  detail::check_not_negative(op, "eps", eps);
}

// running = (1 - momentum) running + share batch
void advance(Tensor running, const Tensor& batch, double momentum, double share) {
  if (!running.defined()) return;
  running.mul_(1 - momentum);
  running.add_((batch.detach() * share).reshape(running.shape()).to(running.dtype()));
}

}  // namespace

namespace normalization::batch {
namespace {

enum Input { kX, kW, kB, kMean, kVar };  // mean and var are defined outside of training

void infer(Infer& in) {
  const char* op = in.op.name;
  const Tensor& x = in.in(kX);
  check_input(op, x, in.attrs<Attrs>().eps);
  const Tensor &mean = in.in(kMean), &var = in.in(kVar);
  check_parameters(op, x, {{"weight", &in.in(kW)}, {"bias", &in.in(kB)}, {"mean", &mean}, {"var", &var}},
                   true);
  CT_CHECK(mean.defined() == var.defined(), ValueError, op,
           "one of mean and var is undefined; both are, or neither");
  const std::int64_t channels = x.size(1), count = channels == 0 ? 0 : x.numel() / channels;
  CT_CHECK(mean.defined() || count > 1 || channels == 0, ValueError, op, "x is ", describe(x), ", which has ",
           count, " values for each channel; more than 1 are needed in training");
  in.output(x.shape(), x.dtype());
  for (int i = 0; i < 2; ++i) in.output({mean.defined() ? 0 : channels}, accumulate_type(x.dtype()));
}

// dx = w r (g - mean(g) - n mean(g n)) with n the normalized x and means over a channel; outside of training w r g.
void rule(const Backward& b) {
  const Tensor& x = b.in(kX);
  const DType dtype = accumulate_type(x.dtype());
  const bool training = b.in_meta(kMean).shape.empty();
  Dims axes;
  for (int i = 0; i < x.dim(); ++i)
    if (i != 1) axes.push_back(i);
  const Tensor values = x.to(dtype), g = b.grad().to(dtype);
  const Tensor center = training ? mean(values, axes, true) : beside(b.in(kMean).to(dtype), x);
  const Tensor variance =
      training ? mean(square(values - center), axes, true) : beside(b.in(kVar).to(dtype), x);
  const Tensor r = rsqrt(variance + b.attrs<Attrs>().eps), n = (values - center) * r;
  const auto share = [&](int i, const Tensor& each) {
    if (b.needs(i)) b.set_grad_in(i, sum(each, axes).to(b.in_meta(i).dtype));
  };
  share(kW, g * n);
  share(kB, g);
  if (!b.needs(kX)) return;
  Tensor dx = training ? g - mean(g, axes, true) - n * mean(g * n, axes, true) : g;
  dx = dx * r;
  if (!b.in_meta(kW).shape.empty()) dx = dx * beside(b.in(kW).to(dtype), x);
  b.set_grad_in(kX, dx.to(x.dtype()));
}

Call call_of(const char* op, const Tensor& x, double eps) {
  Call c{};
  c.op = op, c.x = x, c.eps = eps;
  c.images = x.size(0), c.channels = x.size(1);
  c.pixels = x.numel() == 0 ? 0 : x.numel() / (c.images * c.channels);
  return c;
}
// In the dtype of sums, as kernels want them.
Tensor numbers(const Tensor& t, const Tensor& x) {
  return t.defined() ? converted(t, accumulate_type(x.dtype())) : Tensor{};
}

}  // namespace

void forward(const Forward& f, Run run) {
  const Tensor& x = f.in(kX);
  if (x.numel() == 0) return;
  Call c = call_of(f.op.name, x, f.attrs<Attrs>().eps);
  c.training = !f.has(kMean);
  c.mean = c.training ? f.out(1) : numbers(f.in(kMean), x);
  c.var = c.training ? f.out(2) : numbers(f.in(kVar), x);
  if (f.has(kW)) c.weight = numbers(f.in(kW), x);
  if (f.has(kB)) c.bias = numbers(f.in(kB), x);
  c.y = f.out();
  run(c);
}

void backward(const Backward& b, Run run) {
  const Tensor& x = b.in(kX);
  Call c = call_of(b.op.name, x, b.attrs<Attrs>().eps);
  const auto sums = [&](int i) {
    const DType dtype = accumulate_type(x.dtype());
    if (b.needs(i)) return whole_grad(b, i, {c.channels}, dtype);
    return x.is_cpu() ? Tensor{} : Tensor::allocate({c.channels}, dtype, x.device());
  };
  c.dweight = sums(kW), c.dbias = sums(kB);
  if (b.needs(kX)) c.dx = b.grad_in(kX);
  if (x.numel() == 0) {
    for (Tensor* t : {&c.dweight, &c.dbias})
      if (t->defined()) fill_kernel(*t, 0);
  } else {
    c.training = b.in_meta(kMean).shape.empty();
    c.mean = c.training ? b.out(1) : numbers(b.in(kMean), x);
    c.var = c.training ? b.out(2) : numbers(b.in(kVar), x);
    if (!b.in_meta(kW).shape.empty()) c.weight = numbers(b.in(kW), x);
    c.g = b.grad();
    run(c);
  }
  if (b.needs(kW)) set_summed_grad(b, kW, c.dweight);
  if (b.needs(kB)) set_summed_grad(b, kB, c.dbias);
}

namespace {

constexpr const char* kAll = "x weight mean var batch_mean batch_var";
constexpr InputDef kInputs[] = {
    {.name = "x", .needs = kAll, .contiguous = true},
    {.name = "weight", .needs = kAll, .optional = true, .any_dtype = true, .contiguous = true},
    {.name = "bias", .needs = kAll, .optional = true, .any_dtype = true, .contiguous = true},
    {.name = "mean", .gradient = false, .optional = true, .any_dtype = true, .contiguous = true},
    {.name = "var", .gradient = false, .optional = true, .any_dtype = true, .contiguous = true}};
constexpr OutputDef kOutputs[] = {{.name = "y", .contiguous = true},
                                  {.name = "batch_mean", .gradient = false},
                                  {.name = "batch_var", .gradient = false}};
constexpr AttrDef kAttributes[] = {CT_ATTRIBUTE(Attrs, eps)};

constexpr OpDef k_batch_norm = checked({
    .name = "batch_norm",
    .formula = "y = (x - mean) / sqrt(var + eps) * w + b, for each channel",
    .inputs = kInputs,
    .outputs = kOutputs,
    .attributes = kAttributes,
    .infer = infer,
    .kernels = &kernel_tables::batch_norm,
    .rule = rule,
    .flops_each = 7,
});

}  // namespace
}  // namespace normalization::batch

CT_ROOM(batch_norm, &normalization::batch::k_batch_norm)

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, const BatchNormOptions& options) {
  constexpr const char* kOp = "batch_norm";
  check_input(kOp, x, options.eps);
  check_parameters(
      kOp, x,
      {{"running_mean", &running_mean}, {"running_var", &running_var}, {"weight", &weight}, {"bias", &bias}});
  detail::check_probability(kOp, "momentum", options.momentum);
  CT_CHECK(options.training || (running_mean.defined() && running_var.defined()), ValueError, kOp,
           "running_mean or running_var is undefined; both are needed outside of training");
  const normalization::batch::Attrs attrs{options.eps};
  if (!options.training)
    return dispatch_n<3>(normalization::batch::k_batch_norm, {x, weight, bias, running_mean, running_var},
                         attrs)[0];
  auto [y, mean, variance] =
      dispatch_n<3>(normalization::batch::k_batch_norm, {x, weight, bias, Tensor{}, Tensor{}}, attrs);
  const NoGrad guard;
  advance(running_mean, mean, options.momentum, options.momentum);
  const auto count = static_cast<double>(x.numel() / std::max<std::int64_t>(x.size(1), 1));
  const double unbiased = count / std::max(count - 1, 1.0);
  advance(running_var, variance, options.momentum, options.momentum * unbiased);
  return y;
}

Tensor group_norm(const Tensor& x, Integer num_groups, const Tensor& weight, const Tensor& bias, Real eps) {
  constexpr const char* kOp = "group_norm";
  check_input(kOp, x, eps);
  check_parameters(kOp, x, {{"weight", &weight}, {"bias", &bias}});
  const std::int64_t groups = num_groups;
  CT_CHECK(groups >= 1 && x.size(1) % groups == 0, ValueError, kOp, "num_groups is ", groups, ", x is ",
           describe(x), "; it must be at least 1 and divide x.size(1)");
  const Tensor values = x.to(accumulate_type(x.dtype()));
  const std::int64_t rows = x.size(0) * groups;
  const Tensor y = x.numel() == 0
                       ? values
                       : layer_norm(values.reshape({rows, x.numel() / rows}), {}, {}, eps).reshape(x.shape());
  return affine(y, weight, bias).to(x.dtype());
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, const InstanceNormOptions& options) {
  constexpr const char* kOp = "instance_norm";
  check_input(kOp, x, options.eps);
  CT_CHECK(x.dim() >= 3, ShapeError, kOp, "x is ", describe(x), "; it must be [N, C, L] or [N, C, ...]");
  if (!options.use_input_stats)
    return batch_norm(x, running_mean, running_var, weight, bias,
                      {.momentum = options.momentum, .eps = options.eps});
  check_parameters(
      kOp, x,
      {{"running_mean", &running_mean}, {"running_var", &running_var}, {"weight", &weight}, {"bias", &bias}});
  detail::check_probability(kOp, "momentum", options.momentum);
  const std::int64_t rows = x.size(0) * x.size(1), count = rows == 0 ? 0 : x.numel() / rows;
  CT_CHECK(rows == 0 || count > 1, ValueError, kOp, "x is ", describe(x), ", which has ", count,
           " values for each channel of a sample; more than 1 are needed");
  if (rows > 0 && (running_mean.defined() || running_var.defined())) {
    const NoGrad guard;
    const Tensor values = x.detach().to(accumulate_type(x.dtype())).flatten(2);
    advance(running_mean, ct::mean(ct::mean(values, {2}), {0}), options.momentum, options.momentum);
    advance(running_var, ct::mean(var(values, {2}, 1), {0}), options.momentum, options.momentum);
  }
  return group_norm(x, std::max<std::int64_t>(x.size(1), 1), weight, bias, options.eps);
}

}  // namespace ct
