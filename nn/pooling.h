#pragma once

#include <cotangent/core/export.h>
#include <cotangent/nn/module.h>
#include <cotangent/ops/convolution/pooling.h>

// Pools as modules, for Sequential. Each is the function of ops/ of the same name and throws as it does.

namespace ct::nn {

/// The largest element of each window of x [N, C, H, W] or [C, H, W].
class CT_API MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Size2d kernel_size, MaxPool2dOptions options = {});
  Tensor forward(const Tensor& x) const { return max_pool2d(x, kernel_size_, options_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  Size2d kernel_size_;
  MaxPool2dOptions options_;
};

/// The mean of each window.
class CT_API AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Size2d kernel_size, AvgPool2dOptions options = {});
  Tensor forward(const Tensor& x) const { return avg_pool2d(x, kernel_size_, options_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  Size2d kernel_size_;
  AvgPool2dOptions options_;
};

/// The means of so many windows, of an image of any size: AdaptiveAvgPool2d(1) is the mean of all of it.
class CT_API AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Size2d output_size);
  Tensor forward(const Tensor& x) const { return adaptive_avg_pool2d(x, output_size_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  Size2d output_size_;
};

}  // namespace ct::nn
