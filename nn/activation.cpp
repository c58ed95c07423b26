#include <cotangent/nn/activation.h>

#include <cotangent/core/error.h>
#include <cotangent/ops/softmax/softmax.h>

namespace ct::nn {

using ct::detail::cat;

LeakyReLU::LeakyReLU(double slope) : slope_(slope) { describe_as("LeakyReLU", cat("slope=", slope)); }

GELU::GELU(Gelu approximate) : approximate_(approximate) {
  describe_as("GELU", approximate == Gelu::tanh ? "approximate=tanh" : "");
}

Softplus::Softplus(double beta, double threshold) : beta_(beta), threshold_(threshold) {
  CT_CHECK(beta != 0, ValueError, "Softplus", "beta is 0; it divides the result");
  describe_as("Softplus", cat("beta=", beta, ", threshold=", threshold));
}

Softmax::Softmax(std::int64_t axis) : axis_(axis) { describe_as("Softmax", cat("axis=", axis)); }
Tensor Softmax::forward(const Tensor& x) const { return ct::softmax(x, axis_); }

LogSoftmax::LogSoftmax(std::int64_t axis) : axis_(axis) { describe_as("LogSoftmax", cat("axis=", axis)); }
Tensor LogSoftmax::forward(const Tensor& x) const { return ct::log_softmax(x, axis_); }

}  // namespace ct::nn
