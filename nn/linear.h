#pragma once

#include <cstdint>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>
#include <cotangent/ops/matmul/products.h>

namespace ct::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu;
};

/// y = x w^T + b on the last axis: f[..., in] -> f[..., out].
///
/// Parameters "weight" [out, in] and "bias" [out], both drawn from U(-1/sqrt(in), 1/sqrt(in)), which is
/// PyTorch's initialisation (kaiming_uniform_ with a = sqrt(5)). Throws ShapeError for negative sizes.
class CT_API Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options = {});
  /// Throws ShapeError unless x.size(-1) is in_features().
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  /// Draws new values.
  void reset_parameters();

  const Parameter& weight() const { return weight_; }
  /// Undefined without bias.
  const Parameter& bias() const { return bias_; }
  std::int64_t in_features() const { return in_; }
  std::int64_t out_features() const { return out_; }

 private:
  std::int64_t in_, out_;
  Parameter weight_, bias_;
};

/// Gives its input back.
class CT_API Identity : public Module {
 public:
  Identity() { describe_as("Identity"); }
  Tensor forward(const Tensor& x) const { return x; }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
};

/// ct::bilinear: y[.., o] = sum_ij x1[.., i] weight[o, i, j] x2[.., j] + bias[o]. Parameters "weight" [out, in1, in2] and
/// "bias" [out], both drawn from U(-1/sqrt(in1), 1/sqrt(in1)), which is PyTorch's initialisation.
class CT_API Bilinear : public Module {
 public:
  /// Throws ShapeError for sizes below 0.
  Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
           LinearOptions options = {});
  Tensor forward(const Tensor& x1, const Tensor& x2) const { return ct::bilinear(x1, x2, weight_, bias_); }
  Tensor operator()(const Tensor& x1, const Tensor& x2) const { return call(*this, x1, x2); }
  void reset_parameters();

 private:
  Parameter weight_, bias_;
};

/// Joins the axes first..last into one: by default all but the batch axis.
class CT_API Flatten : public Module {
 public:
  explicit Flatten(std::int64_t first_axis = 1, std::int64_t last_axis = -1);
  Tensor forward(const Tensor& x) const { return x.flatten(first_, last_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  std::int64_t first_, last_;
};

/// Splits an axis into several of these sizes, one of which may be -1, which is what is left for it.
class CT_API Unflatten : public Module {
 public:
  Unflatten(std::int64_t axis, const Shape& sizes);
  /// Throws ShapeError where the sizes do not make up the axis.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  std::int64_t axis_;
  Shape sizes_;
};

}  // namespace ct::nn
