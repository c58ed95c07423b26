#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <cotangent/core/dtype.h>
#include <cotangent/core/export.h>
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
  Tensor operator()(const Tensor& x) const { return forward(x); }
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
  Tensor operator()(const Tensor& x) const { return forward(x); }
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

}  // namespace ct::nn
