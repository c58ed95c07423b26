#include <cotangent/nn/normalization.h>

#include <cmath>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/core/base/error.h>
#include <cotangent/nn/init.h>
#include <cotangent/ops/normalization/batch_norm.h>
#include <cotangent/ops/normalization/layer_norm.h>
#include <cotangent/ops/normalization/rms_norm.h>

namespace ct::nn {
namespace {

// Sizes are checked here: without parameters the ops do not know them.
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

namespace detail {

BatchNorm::BatchNorm(const char* kind, std::int64_t num_features, const BatchNormOptions& options)
    : size_(num_features), eps_(options.eps), momentum_(options.momentum) {
  CT_CHECK(size_ >= 0, ShapeError, kind, "got the size ", size_, "; it must be >= 0");
  ct::detail::check_not_negative(kind, "eps", eps_);
  if (momentum_) ct::detail::check_probability(kind, "momentum", *momentum_);
  describe_as(kind, ct::detail::cat(size_, ", eps=", eps_, options.affine ? "" : ", affine=false",
                                    options.track_running_stats ? "" : ", track_running_stats=false"));
  const auto make = [&](bool there, double value) {
    Tensor t = there ? Tensor::allocate({size_}, options.dtype, options.device) : Tensor();
    if (there) t.fill_(value);
    return t;
  };
  weight_ = parameter("weight", make(options.affine, 1));
  bias_ = parameter("bias", make(options.affine, 0));
  running_mean_ = buffer("running_mean", make(options.track_running_stats, 0));
  running_var_ = buffer("running_var", make(options.track_running_stats, 1));
  Tensor batches = options.track_running_stats ? Tensor::allocate({}, DType::i64, options.device) : Tensor();
  if (batches.defined()) batches.zero_();
  num_batches_tracked_ = buffer("num_batches_tracked", batches);
}

Tensor BatchNorm::normalized(const Tensor& x) const {
  check_channels(x, 1);
  const bool tracked = running_mean_.defined();
  const bool counts = tracked && is_training();
  Tensor batches = num_batches_tracked_;
  const double momentum = momentum_ ? *momentum_ : counts ? 1 / (batches.item() + 1) : 0;
  Tensor y = ct::batch_norm(x, running_mean_, running_var_, weight_, bias_,
                            {.training = is_training() || !tracked, .momentum = momentum, .eps = eps_});
  if (counts) {  // a batch that is refused is none
    const NoGrad guard;
    batches.add_(1);
  }
  return y;
}

void BatchNorm::check_rank(const Tensor& x, int least, int most, const char* form) const {
  CT_CHECK(x.dim() >= least && x.dim() <= most, ShapeError, kind().c_str(), "x is ", describe(x),
           "; it must be ", form);
}

void BatchNorm::check_channels(const Tensor& x, int axis) const {
  CT_CHECK(x.size(axis) == size_, ShapeError, kind().c_str(), "x is ", describe(x), "; x.size(", axis,
           ") must be ", size_);
}

InstanceNorm::InstanceNorm(const char* kind, std::int64_t num_features, const InstanceNormOptions& options)
    : BatchNorm(kind, num_features,
                {.eps = options.eps,
                 .momentum = options.momentum,
                 .affine = options.affine,
                 .track_running_stats = options.track_running_stats,
                 .dtype = options.dtype,
                 .device = options.device}) {}

Tensor InstanceNorm::normalized(const Tensor& x, int rank, const char* form) const {
  check_rank(x, rank - 1, rank, form);
  const bool batch = x.dim() == rank;
  check_channels(x, batch);
  const Tensor y = ct::instance_norm(
      batch ? x : x.unsqueeze(0), running_mean_, running_var_, weight_, bias_,
      {.use_input_stats = is_training() || !running_mean_.defined(), .momentum = *momentum_, .eps = eps_});
  return batch ? y : y.squeeze(0);
}

}  // namespace detail

Tensor BatchNorm1d::forward(const Tensor& x) const {
  check_rank(x, 2, 3, "[N, C] or [N, C, L]");
  return normalized(x);
}
Tensor BatchNorm2d::forward(const Tensor& x) const {
  check_rank(x, 4, 4, "[N, C, H, W]");
  return normalized(x);
}

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options)
    : groups_(num_groups), channels_(num_channels), eps_(options.eps) {
  CT_CHECK(groups_ >= 1 && channels_ >= 0 && channels_ % groups_ == 0, ValueError, "GroupNorm", "got ",
           groups_, " groups of ", channels_, " channels; the first must divide the second");
  ct::detail::check_not_negative("GroupNorm", "eps", eps_);
  describe_as("GroupNorm", ct::detail::cat(groups_, ", ", channels_, ", eps=", eps_,
                                           options.affine ? "" : ", affine=false"));
  const auto make = [&] {
    return options.affine ? Tensor::allocate({channels_}, options.dtype, options.device) : Tensor();
  };
  weight_ = parameter("weight", make());
  bias_ = parameter("bias", make());
  if (weight_.defined()) init::ones_(weight_);
  if (bias_.defined()) init::zeros_(bias_);
}

Tensor GroupNorm::forward(const Tensor& x) const {
  CT_CHECK(x.dim() >= 2 && x.size(1) == channels_, ShapeError, "GroupNorm", "x is ", describe(x),
           "; it must be [N, ", channels_, ", ...]");
  return ct::group_norm(x, groups_, weight_, bias_, eps_);
}

}  // namespace ct::nn
