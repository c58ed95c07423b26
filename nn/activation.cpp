#include <cotangent/nn/activation.h>

#include <cmath>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/softmax/softmax.h>

namespace ct::nn {

using ct::detail::cat;

LeakyReLU::LeakyReLU(double slope) : slope_(slope) {
  ct::detail::check_finite("LeakyReLU", "slope", slope);
  describe_as("LeakyReLU", cat("slope=", slope));
}

ELU::ELU(double alpha) : alpha_(alpha) {
  ct::detail::check_finite("ELU", "alpha", alpha);
  describe_as("ELU", cat("alpha=", alpha));
}

Hardtanh::Hardtanh(double low, double high) : low_(low), high_(high) {
  CT_CHECK(low <= high, ValueError, "Hardtanh", "the bounds are ", low, " and ", high,
           "; they must be numbers, the lower one first");
  describe_as("Hardtanh", cat("low=", low, ", high=", high));
}

PReLU::PReLU(std::int64_t num_parameters, PReLUOptions options) {
  CT_CHECK(num_parameters >= 1, ShapeError, "PReLU", "got ", num_parameters,
           " parameters; 1 or one for each channel");
  ct::detail::check_finite("PReLU", "init", options.init);
  describe_as("PReLU", cat("num_parameters=", num_parameters));
  weight_ = parameter(
      "weight", full({num_parameters}, options.init, {.dtype = options.dtype, .device = options.device}));
}

GELU::GELU(Gelu approximate) : approximate_(approximate) {
  describe_as("GELU", approximate == Gelu::tanh ? "approximate=tanh" : "");
}

Softplus::Softplus(double beta, double threshold) : beta_(beta), threshold_(threshold) {
  CT_CHECK(std::isfinite(beta) && beta != 0, ValueError, "Softplus", "beta is ", beta,
           "; it must be finite and not 0 (1 is usual)");
  CT_CHECK(!std::isnan(threshold), ValueError, "Softplus", "threshold is ", threshold,
           "; it must be a number (20 is usual)");
  describe_as("Softplus", cat("beta=", beta, ", threshold=", threshold));
}

Softmax::Softmax(std::int64_t axis) : axis_(axis) { describe_as("Softmax", cat("axis=", axis)); }
Tensor Softmax::forward(const Tensor& x) const { return ct::softmax(x, axis_); }

LogSoftmax::LogSoftmax(std::int64_t axis) : axis_(axis) { describe_as("LogSoftmax", cat("axis=", axis)); }
Tensor LogSoftmax::forward(const Tensor& x) const { return ct::log_softmax(x, axis_); }

}  // namespace ct::nn
