#include <cotangent/nn/init.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/op/execute.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/creation/initial_internal.h>
#include <cotangent/ops/view/view.h>

namespace ct::nn::init {
namespace {

thread_local bool t_skip = false;

// Calls change(values) of the tensor, or of one that is contiguous, in f32 if the tensor has 16 bits, and on `device`, and
// copies that into it.
template <class Change>
const Tensor& changed(const char* op, const Tensor& t, Device device, Change&& change) {
  CT_CHECK(is_floating(t.dtype()), DTypeError, op, "got ", describe(t),
           "; initialisers need a floating dtype");
  if (t_skip) return t;
  const NoGrad guard;
  const DType wide = t.dtype() == f64 ? f64 : f32;
  Tensor target = t, values = t;
  if (t.dtype() != wide || t.device() != device || !t.is_contiguous())
    values = Tensor::allocate(t.shape(), wide, device);
  change(values);
  if (!values.is_same(t)) target.copy_(values);
  return t;
}

struct Fans {
  double in = 0, out = 0;
};

Fans fans(const char* op, const Tensor& t) {
  CT_CHECK(t.dim() >= 2, ShapeError, op, "got ", describe(t), "; fan_in and fan_out need at least 2 axes");
  double field = 1;
  for (int i = 2; i < t.dim(); ++i) field *= static_cast<double>(t.shape()[i]);
  return {static_cast<double>(t.shape()[1]) * field, static_cast<double>(t.shape()[0]) * field};
}

// A number is multiplied and then added to, two roundings: what was drawn does not depend on how the library was compiled.
const Tensor& uniform_as(const char* op, const Tensor& t, double low, double high) {
  CT_CHECK(low <= high && std::isfinite(high - low), ValueError, op, "got the bounds ", low, " and ", high,
           "; they must be finite, and the first not above the second");
  return changed(op, t, t.device(), [=](Tensor& x) { x.uniform_().mul_(high - low).add_(low); });
}

const Tensor& normal_as(const char* op, const Tensor& t, double mean, double std) {
  ct::detail::check_finite(op, "mean", mean);
  ct::detail::check_not_negative(op, "std", std);
  return changed(op, t, t.device(), [=](Tensor& x) { x.normal_().mul_(std).add_(mean); });
}

double kaiming_scale(const char* op, const Tensor& t, const KaimingOptions& options) {
  ct::detail::check_finite(op, "a", options.a);
  const Fans f = fans(op, t);
  const double fan = options.mode == FanMode::fan_in ? f.in : f.out;
  return fan > 0 ? gain(options.nonlinearity, options.a) / std::sqrt(fan) : 0;
}

double xavier_scale(const char* op, const Tensor& t, double gain) {
  ct::detail::check_not_negative(op, "gain", gain);
  const Fans f = fans(op, t);
  return f.in + f.out > 0 ? gain * std::sqrt(2 / (f.in + f.out)) : 0;
}

}  // namespace

Skip::Skip() : previous_(t_skip) { t_skip = true; }
Skip::~Skip() { t_skip = previous_; }

double gain(Nonlinearity nonlinearity, double a) {
  switch (nonlinearity) {
    case Nonlinearity::tanh: return 5.0 / 3;
    case Nonlinearity::relu: return std::numbers::sqrt2;
    case Nonlinearity::leaky_relu: return std::sqrt(2 / (1 + a * a));
    case Nonlinearity::selu: return 0.75;
    default: return 1;
  }
}

const Tensor& constant_(const Tensor& t, double value) {
  return changed("constant_", t, t.device(), [=](Tensor& x) { x.fill_(value); });
}

const Tensor& uniform_(const Tensor& t, double low, double high) {
  return uniform_as("uniform_", t, low, high);
}
const Tensor& normal_(const Tensor& t, double mean, double std) { return normal_as("normal_", t, mean, std); }

const Tensor& trunc_normal_(const Tensor& t, double mean, double std, double low, double high) {
  ct::detail::check_finite("trunc_normal_", "mean", mean);
  CT_CHECK(std > 0 && std::isfinite(std) && low < high, ValueError, "trunc_normal_", "got std ", std,
           " and the bounds ", low, ", ", high,
           "; std must be finite and > 0, and the first bound below the second");
  return changed("trunc_normal_", t, cpu, [=](Tensor& x) {
    ct::detail::write(k_truncated, {&x.uniform_()}, TruncatedAttrs{mean, std, low, high});
  });
}

const Tensor& xavier_uniform_(const Tensor& t, double gain) {
  const double bound = std::sqrt(3.0) * xavier_scale("xavier_uniform_", t, gain);
  return uniform_as("xavier_uniform_", t, -bound, bound);
}

const Tensor& xavier_normal_(const Tensor& t, double gain) {
  return normal_as("xavier_normal_", t, 0, xavier_scale("xavier_normal_", t, gain));
}

const Tensor& kaiming_uniform_(const Tensor& t, KaimingOptions options) {
  const double bound = std::sqrt(3.0) * kaiming_scale("kaiming_uniform_", t, options);
  return uniform_as("kaiming_uniform_", t, -bound, bound);
}

const Tensor& kaiming_normal_(const Tensor& t, KaimingOptions options) {
  return normal_as("kaiming_normal_", t, 0, kaiming_scale("kaiming_normal_", t, options));
}

const Tensor& orthogonal_(const Tensor& t, double gain) {
  CT_CHECK(t.dim() >= 2, ShapeError, "orthogonal_", "got ", describe(t), "; at least 2 axes are needed");
  ct::detail::check_finite("orthogonal_", "gain", gain);
  return changed("orthogonal_", t, t.device(), [=](Tensor& x) {
    if (x.numel() == 0) return;
    const std::int64_t rows = x.shape()[0], columns = x.numel() / rows;
    Tensor q = randn({std::max(rows, columns), std::min(rows, columns)}, {.dtype = f64}).t().contiguous();
    ct::detail::write(k_orthonormalize, {&q});
    if (rows > columns) q = q.t();
    x.copy_(q.mul_(gain).reshape(x.shape()));
  });
}

}  // namespace ct::nn::init
