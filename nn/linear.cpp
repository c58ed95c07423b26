#include <cotangent/nn/linear.h>

#include <cmath>

#include <cotangent/core/base/error.h>
#include <cotangent/nn/init.h>
#include <cotangent/ops/linear/linear.h>

namespace ct::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options)
    : in_(in_features), out_(out_features) {
  CT_CHECK(in_ >= 0 && out_ >= 0, ShapeError, "Linear", "got sizes ", in_, " and ", out_,
           "; sizes must be >= 0");
  describe_as("Linear",
              ct::detail::cat("in=", in_, ", out=", out_, ", bias=", options.bias ? "true" : "false"));
  weight_ = parameter("weight", Tensor::allocate({out_, in_}, options.dtype, options.device));
  bias_ =
      parameter("bias", options.bias ? Tensor::allocate({out_}, options.dtype, options.device) : Tensor());
  reset_parameters();
}

void Linear::reset_parameters() {
  init::kaiming_uniform_(weight_, {.a = std::sqrt(5.0), .nonlinearity = init::Nonlinearity::leaky_relu});
  if (!bias_.defined()) return;
  const double bound = in_ > 0 ? 1 / std::sqrt(static_cast<double>(in_)) : 0;
  init::uniform_(bias_, -bound, bound);
}

Tensor Linear::forward(const Tensor& x) const { return ct::linear(x, weight_, bias_); }

Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, LinearOptions options) {
  CT_CHECK(in1 >= 0 && in2 >= 0 && out >= 0, ShapeError, "Bilinear", "got sizes ", in1, ", ", in2, " and ",
           out, "; sizes must be >= 0");
  describe_as("Bilinear", ct::detail::cat("in1=", in1, ", in2=", in2, ", out=", out,
                                          ", bias=", options.bias ? "true" : "false"));
  weight_ = parameter("weight", Tensor::allocate({out, in1, in2}, options.dtype, options.device));
  bias_ = parameter("bias", options.bias ? Tensor::allocate({out}, options.dtype, options.device) : Tensor());
  reset_parameters();
}
void Bilinear::reset_parameters() {
  const std::int64_t in1 = weight_->size(1);
  const double bound = in1 > 0 ? 1 / std::sqrt(static_cast<double>(in1)) : 0;
  init::uniform_(weight_, -bound, bound);
  if (bias_.defined()) init::uniform_(bias_, -bound, bound);
}

Flatten::Flatten(std::int64_t first_axis, std::int64_t last_axis) : first_(first_axis), last_(last_axis) {
  describe_as("Flatten", ct::detail::cat("first_axis=", first_, ", last_axis=", last_));
}

Unflatten::Unflatten(std::int64_t axis, const Shape& sizes) : axis_(axis), sizes_(sizes) {
  CT_CHECK(sizes_.size() > 0, ValueError, "Unflatten", "no sizes were given; the axis needs at least one");
  describe_as("Unflatten", ct::detail::cat("axis=", axis_, ", sizes=", sizes_));
}
Tensor Unflatten::forward(const Tensor& x) const { return x.unflatten(axis_, sizes_); }

}  // namespace ct::nn
