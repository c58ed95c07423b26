#include <cotangent/nn/normalization.h>

#include <cmath>

#include <cotangent/core/check_number_internal.h>
#include <cotangent/core/error.h>
#include <cotangent/nn/init.h>
#include <cotangent/ops/normalization/layer_norm.h>
#include <cotangent/ops/normalization/rms_norm.h>

namespace ct::nn {
namespace {

// Without parameters the ops cannot see which sizes are wanted.
void check_tail(const char* op, const Tensor& x, const Shape& tail) {
  bool fits = x.dim() >= tail.size();
  for (int i = 0; fits && i < tail.size(); ++i) fits = x.size(i - tail.size()) == tail[i];
  CT_CHECK(fits, ShapeError, op, "x is ", describe(x), "; its last sizes must be ", tail);
}

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized_shape, LayerNormOptions options)
    : shape_(normalized_shape), eps_(options.eps) {
  CT_CHECK(!shape_.empty(), ShapeError, "LayerNorm", "normalized_shape is empty; name at least one size");
  check_sizes("LayerNorm", shape_);
  ct::detail::check_not_negative("LayerNorm", "eps", eps_);
  describe_as("LayerNorm", ct::detail::cat(shape_, ", eps=", eps_, options.affine ? "" : ", affine=false",
                                           options.bias ? "" : ", bias=false"));
  const auto make = [&](bool there) {
    return there ? Tensor::allocate(shape_, options.dtype, options.device) : Tensor();
  };
  weight_ = parameter("weight", make(options.affine));
  bias_ = parameter("bias", make(options.affine && options.bias));
  if (weight_.defined()) init::ones_(weight_);
  if (bias_.defined()) init::zeros_(bias_);
}

Tensor LayerNorm::forward(const Tensor& x) const {
  check_tail("LayerNorm", x, shape_);
  if (weight_.defined() || shape_.size() == 1) return ct::layer_norm(x, weight_, bias_, eps_);
  return ct::layer_norm(x.flatten(-shape_.size()), {}, {}, eps_).reshape(x.shape());
}

std::array<Tensor, 2> LayerNorm::add_forward(const Tensor& x, const Tensor& residual, NormUse use) const {
  check_tail("LayerNorm", x, shape_);
  return ct::add_layer_norm(x, residual, weight_, bias_, eps_, use);
}

RMSNorm::RMSNorm(std::int64_t size, RMSNormOptions options) : size_(size), eps_(options.eps) {
  CT_CHECK(size >= 0, ShapeError, "RMSNorm", "got the size ", size, "; it must be >= 0");
  if (eps_) ct::detail::check_not_negative("RMSNorm", "eps", *eps_);
  describe_as("RMSNorm", ct::detail::cat(size, eps_ ? ct::detail::cat(", eps=", *eps_) : "",
                                         options.affine ? "" : ", affine=false"));
  weight_ = parameter("weight",
                      options.affine ? Tensor::allocate({size}, options.dtype, options.device) : Tensor());
  if (weight_.defined()) init::ones_(weight_);
}

double RMSNorm::eps_for(const Tensor& x) const {
  if (eps_) return *eps_;
  switch (x.dtype()) {
    case DType::f64: return std::ldexp(1.0, -52);
    case DType::f16: return std::ldexp(1.0, -10);
    case DType::bf16: return std::ldexp(1.0, -7);
    default: return std::ldexp(1.0, -23);
  }
}

Tensor RMSNorm::forward(const Tensor& x) const {
  check_tail("RMSNorm", x, {size_});
  return ct::rms_norm(x, weight_, eps_for(x));
}

std::array<Tensor, 2> RMSNorm::add_forward(const Tensor& x, const Tensor& residual, NormUse use) const {
  check_tail("RMSNorm", x, {size_});
  return ct::add_rms_norm(x, residual, weight_, eps_for(x), use);
}

}  // namespace ct::nn
