#include <cotangent/nn/dropout.h>

#include <cotangent/core/error.h>
#include <cotangent/ops/dropout/dropout.h>

namespace ct::nn {

Dropout::Dropout(double p) : p_(p) {
  CT_CHECK(p >= 0 && p <= 1, ValueError, "Dropout", "p is ", p, "; a probability lies in [0, 1]");
  describe_as("Dropout", ct::detail::cat("p=", p));
}

Tensor Dropout::forward(const Tensor& x) const { return ct::dropout(x, p_, is_training()); }

}  // namespace ct::nn
