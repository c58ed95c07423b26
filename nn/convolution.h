#pragma once

#include <cstdint>
#include <string>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>
#include <cotangent/ops/convolution/convolution.h>

namespace ct::nn {

namespace detail {
/// Base of the convolution layers: parameters "weight" and "bias", both drawn from
/// U(-1/sqrt(f), 1/sqrt(f)) with f the elements of weight[0], which is PyTorch's initialisation.
class CT_API ConvolutionLayer : public Module {
 public:
  /// Draws new values.
  void reset_parameters();
  const Parameter& weight() const { return weight_; }
  /// Undefined without bias.
  const Parameter& bias() const { return bias_; }

 protected:
  /// The weight is [in, out / groups, kernel...] where `transposed`, else [out, in / groups, kernel...].
  ConvolutionLayer(const char* kind, std::int64_t in, std::int64_t out, const Shape& kernel,
                   std::int64_t groups, bool transposed, bool bias, DType dtype, Device device);

 private:
  Parameter weight_, bias_;
};
}  // namespace detail

struct Conv1dOptions {
  std::int64_t stride = 1;
  ConvPadding padding = 0;  ///< a number, "same" or "valid"
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu;
};
struct Conv2dOptions {
  Size2d stride = 1;
  ConvPadding padding = 0;
  Size2d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::f32;
  Device device = cpu;
};
struct ConvTranspose1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  std::int64_t dilation = 1;
  DType dtype = DType::f32;
  Device device = cpu;
};
struct ConvTranspose2dOptions {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Size2d dilation = 1;
  DType dtype = DType::f32;
  Device device = cpu;
};

/// conv1d of x [N, C, L] or [C, L]. Throws ShapeError for sizes below 0, or channels that are no multiples of groups, and
/// ValueError for groups below 1, as the other two do.
class CT_API Conv1d : public detail::ConvolutionLayer {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         Conv1dOptions options = {});
  /// Throws as conv1d.
  Tensor forward(const Tensor& x) const { return ct::conv1d(x, weight(), bias(), options_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  ct::Conv1dOptions options_;
};

/// conv2d of x [N, C, H, W] or [C, H, W].
class CT_API Conv2d : public detail::ConvolutionLayer {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel_size, Conv2dOptions options = {});
  /// Throws as conv2d.
  Tensor forward(const Tensor& x) const { return ct::conv2d(x, weight(), bias(), options_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  ct::Conv2dOptions options_;
};

/// conv_transpose2d of x [N, C, H, W] or [C, H, W].
class CT_API ConvTranspose2d : public detail::ConvolutionLayer {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel_size,
                  ConvTranspose2dOptions options = {});
  /// Throws as conv_transpose2d.
  Tensor forward(const Tensor& x) const { return ct::conv_transpose2d(x, weight(), bias(), options_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  ct::ConvTranspose2dOptions options_;
};

/// conv_transpose1d of x [N, C, L] or [C, L].
class CT_API ConvTranspose1d : public detail::ConvolutionLayer {
 public:
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                  ConvTranspose1dOptions options = {});
  /// Throws as conv_transpose1d.
  Tensor forward(const Tensor& x) const { return ct::conv_transpose1d(x, weight(), bias(), options_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  ct::ConvTranspose1dOptions options_;
};

}  // namespace ct::nn
