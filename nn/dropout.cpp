#include <cotangent/nn/dropout.h>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>
#include <cotangent/ops/elementwise/dropout.h>

namespace ct::nn {

Dropout::Dropout(double p) : p_(p) {
  ct::detail::check_probability("Dropout", "p", p);
  describe_as("Dropout", ct::detail::cat("p=", p));
}

Tensor Dropout::forward(const Tensor& x) const { return ct::dropout(x, p_, is_training()); }

}  // namespace ct::nn
