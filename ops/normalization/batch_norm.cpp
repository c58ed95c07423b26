#include <cotangent/ops/normalization/batch_norm.h>

#include <algorithm>
#include <utility>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/check_number_internal.h>
#include <cotangent/core/registry.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>
#include <cotangent/ops/normalization/layer_norm.h>
#include <cotangent/ops/reduce/reduce.h>

namespace ct {
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
                      std::initializer_list<std::pair<const char*, const Tensor*>> all) {
  for (const auto& [name, t] : all) {
    if (!t->defined()) continue;
    CT_CHECK(t->dim() == 1 && t->size(0) == x.size(1), ShapeError, op, name, " is ", describe(*t), ", x is ",
             describe(x), "; it must be [", x.size(1), "], a number for each channel");
    CT_CHECK(t->dtype() == x.dtype() || (t->dtype() == DType::f32 && is_low_precision(x.dtype())), DTypeError,
             op, name, " is ", describe(*t), ", x is ", describe(x),
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
  const DType dtype = accumulate_type(x.dtype());
  const Tensor values = x.to(dtype);
  Tensor mean, variance;
  if (options.training) {
    const std::int64_t channels = x.size(1), count = channels == 0 ? 0 : x.numel() / channels;
    CT_CHECK(count > 1 || channels == 0, ValueError, kOp, "x is ", describe(x), ", which has ", count,
             " values for each channel; more than 1 are needed in training");
    Dims axes;
    for (int i = 0; i < x.dim(); ++i)
      if (i != 1) axes.push_back(i);
    mean = ct::mean(values, axes, true);
    variance = var(values, axes, 0, true);
    const NoGrad guard;
    advance(running_mean, mean, options.momentum, options.momentum);
    const double unbiased =
        static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
    advance(running_var, variance, options.momentum, options.momentum * unbiased);
  } else {
    mean = beside(running_mean.to(dtype), x), variance = beside(running_var.to(dtype), x);
  }
  return affine((values - mean) * rsqrt(variance + options.eps), weight, bias).to(x.dtype());
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

CT_COMPOSED(batch_norm)

}  // namespace ct
