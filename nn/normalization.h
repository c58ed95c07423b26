#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>
#include <cotangent/ops/normalization/norm_use.h>

namespace ct::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  /// False: no parameters.
  bool affine = true;
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu;
};

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last axes (Ba et al. 2016), which have the
/// sizes `normalized_shape`; the shape is kept. Statistics are those of the elements themselves (no
/// correction).
///
/// Parameters "weight" (ones) and "bias" (zeros) of normalized_shape, as torch.nn.LayerNorm.
class CT_API LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized_shape, LayerNormOptions options = {});
  explicit LayerNorm(std::int64_t size, LayerNormOptions options = {}) : LayerNorm(Shape{size}, options) {}
  /// Throws ShapeError unless x ends with normalized_shape.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  /// {forward(x + residual), x + residual} in one pass: what blocks with a residual path want. For a
  /// normalized_shape of one axis. Under Autocast the first has the dtype of products, unless `use` is
  /// stream, and the sum is f32 (see add_layer_norm).
  std::array<Tensor, 2> add_forward(const Tensor& x, const Tensor& residual,
                                    NormUse use = NormUse::product) const;

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }
  double eps() const { return eps_; }

 private:
  Shape shape_;
  double eps_;
  Parameter weight_, bias_;
};

struct RMSNormOptions {
  /// Left out: the spacing of the numbers of x's dtype at 1 (PyTorch's default).
  std::optional<double> eps = {};
  /// False: no parameter.
  bool affine = true;
  DType dtype = DType::f32;
  Device device = cpu;
};

/// x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang and Sennrich 2019); the shape is kept.
///
/// Parameter "weight" [size] (ones), as torch.nn.RMSNorm.
class CT_API RMSNorm : public Module {
 public:
  explicit RMSNorm(std::int64_t size, RMSNormOptions options = {});
  /// Throws ShapeError unless x.size(-1) is the size.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  /// {forward(x + residual), x + residual} in one pass. Under Autocast as LayerNorm's.
  std::array<Tensor, 2> add_forward(const Tensor& x, const Tensor& residual,
                                    NormUse use = NormUse::product) const;

  const Parameter& weight() const { return weight_; }

 private:
  double eps_for(const Tensor& x) const;

  std::int64_t size_;
  std::optional<double> eps_;
  Parameter weight_;
};

struct BatchNormOptions {
  double eps = 1e-5;
  /// The share of a batch in the running statistics; left out: they are the means of all batches.
  std::optional<double> momentum = 0.1;
  /// False: no parameters.
  bool affine = true;
  /// False: no running statistics; those of the batch serve in evaluation as well.
  bool track_running_stats = true;
  DType dtype = DType::f32;
  Device device = cpu;
};

namespace detail {
/// Base of BatchNorm1d and BatchNorm2d.
///
/// Parameters "weight" (ones) and "bias" (zeros), buffers "running_mean" (zeros), "running_var" (ones) and
/// "num_batches_tracked" (i64, 0), as in PyTorch. In training, forward() uses the statistics of the batch and changes the
/// buffers; in evaluation it uses the buffers. Throws ShapeError for a negative size, ValueError for an eps or momentum
/// that makes no sense.
class CT_API BatchNorm : public Module {
 public:
  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }
  const Buffer& running_mean() const { return running_mean_; }
  const Buffer& running_var() const { return running_var_; }
  const Buffer& num_batches_tracked() const { return num_batches_tracked_; }

 protected:
  BatchNorm(const char* kind, std::int64_t num_features, const BatchNormOptions& options);
  Tensor normalized(const Tensor& x) const;
  void check_rank(const Tensor& x, int least, int most, const char* form) const;
  void check_channels(const Tensor& x, int axis) const;

  std::int64_t size_;
  double eps_;
  std::optional<double> momentum_;
  Parameter weight_, bias_;
  Buffer running_mean_, running_var_, num_batches_tracked_;
};
}  // namespace detail

/// batch_norm of x [N, C] or [N, C, L].
class CT_API BatchNorm1d : public detail::BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm1d", num_features, options) {}
  /// Throws as batch_norm, and ShapeError for another rank.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// batch_norm of x [N, C, H, W].
class CT_API BatchNorm2d : public detail::BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm2d", num_features, options) {}
  /// Throws as batch_norm, and ShapeError for another rank.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

struct InstanceNormOptions {
  double eps = 1e-5;
  /// The share of a batch in the running statistics.
  double momentum = 0.1;
  /// True: parameters.
  bool affine = false;
  /// True: running statistics, which serve in evaluation.
  bool track_running_stats = false;
  DType dtype = DType::f32;
  Device device = cpu;
};

namespace detail {
/// Base of InstanceNorm1d and InstanceNorm2d: parameters and buffers as BatchNorm's.
class CT_API InstanceNorm : public BatchNorm {
 protected:
  InstanceNorm(const char* kind, std::int64_t num_features, const InstanceNormOptions& options);
  Tensor normalized(const Tensor& x, int rank, const char* form) const;
};
}  // namespace detail

/// instance_norm of x [N, C, L] or [C, L].
class CT_API InstanceNorm1d : public detail::InstanceNorm {
 public:
  explicit InstanceNorm1d(std::int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm("InstanceNorm1d", num_features, options) {}
  /// Throws as instance_norm, and ShapeError for another rank.
  Tensor forward(const Tensor& x) const { return normalized(x, 3, "[N, C, L] or [C, L]"); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// instance_norm of x [N, C, H, W] or [C, H, W].
class CT_API InstanceNorm2d : public detail::InstanceNorm {
 public:
  explicit InstanceNorm2d(std::int64_t num_features, const InstanceNormOptions& options = {})
      : InstanceNorm("InstanceNorm2d", num_features, options) {}
  /// Throws as instance_norm, and ShapeError for another rank.
  Tensor forward(const Tensor& x) const { return normalized(x, 4, "[N, C, H, W] or [C, H, W]"); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

struct GroupNormOptions {
  double eps = 1e-5;
  /// False: no parameters.
  bool affine = true;
  DType dtype = DType::f32;
  Device device = cpu;
};

/// group_norm of x [N, C, ...]: parameters "weight" (ones) and "bias" (zeros) [C]. Throws ValueError unless num_groups
/// divides num_channels.
class CT_API GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }

 private:
  std::int64_t groups_, channels_;
  double eps_;
  Parameter weight_, bias_;
};

}  // namespace ct::nn
