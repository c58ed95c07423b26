#pragma once

#include <cstdint>
#include <string>

#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>
#include <cotangent/ops/convolution/pooling.h>
#include <cotangent/ops/convolution/upsample.h>

// Pools, and images of another size, as modules, for Sequential: the functions of ops/ of the same names, with their
// arguments kept. They throw as these do.

namespace ct::nn {

namespace detail {
CT_API std::string window_text(Size2d size);
CT_API std::string window_text(std::int64_t size);

template <auto kFunction, class Size, class Options>
class Pool : public Module {
 public:
  Tensor forward(const Tensor& x) const { return kFunction(x, kernel_size_, options_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 protected:
  Pool(const char* type, Size kernel_size, const Options& options)
      : kernel_size_(kernel_size), options_(options) {
    describe_as(type, "kernel=" + window_text(kernel_size) +
                          ", stride=" + window_text(options.stride.value_or(kernel_size)));
  }

 private:
  Size kernel_size_;
  Options options_;
};

template <auto kFunction, class Size>
class AdaptivePool : public Module {
 public:
  Tensor forward(const Tensor& x) const { return kFunction(x, output_size_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 protected:
  AdaptivePool(const char* type, Size output_size) : output_size_(output_size) {
    describe_as(type, "output_size=" + window_text(output_size));
  }

 private:
  Size output_size_;
};
}  // namespace detail

/// The largest element of each window of x [N, C, H, W] or [C, H, W].
class CT_API MaxPool2d : public detail::Pool<max_pool2d, Size2d, MaxPool2dOptions> {
 public:
  explicit MaxPool2d(Size2d kernel_size, const MaxPool2dOptions& options = {})
      : Pool("MaxPool2d", kernel_size, options) {}
};
/// The same of x [N, C, L] or [C, L].
class CT_API MaxPool1d : public detail::Pool<max_pool1d, std::int64_t, MaxPool1dOptions> {
 public:
  explicit MaxPool1d(std::int64_t kernel_size, const MaxPool1dOptions& options = {})
      : Pool("MaxPool1d", kernel_size, options) {}
};

/// The mean of each window.
class CT_API AvgPool2d : public detail::Pool<avg_pool2d, Size2d, AvgPool2dOptions> {
 public:
  explicit AvgPool2d(Size2d kernel_size, const AvgPool2dOptions& options = {})
      : Pool("AvgPool2d", kernel_size, options) {}
};
class CT_API AvgPool1d : public detail::Pool<avg_pool1d, std::int64_t, AvgPool1dOptions> {
 public:
  explicit AvgPool1d(std::int64_t kernel_size, const AvgPool1dOptions& options = {})
      : Pool("AvgPool1d", kernel_size, options) {}
};

/// The means, or the largest, of so many windows, of an image of any size: AdaptiveAvgPool2d(1) is the mean of all of it.
class CT_API AdaptiveAvgPool2d : public detail::AdaptivePool<adaptive_avg_pool2d, Size2d> {
 public:
  explicit AdaptiveAvgPool2d(Size2d output_size) : AdaptivePool("AdaptiveAvgPool2d", output_size) {}
};
class CT_API AdaptiveAvgPool1d : public detail::AdaptivePool<adaptive_avg_pool1d, std::int64_t> {
 public:
  explicit AdaptiveAvgPool1d(std::int64_t output_size) : AdaptivePool("AdaptiveAvgPool1d", output_size) {}
};
class CT_API AdaptiveMaxPool2d : public detail::AdaptivePool<adaptive_max_pool2d, Size2d> {
 public:
  explicit AdaptiveMaxPool2d(Size2d output_size) : AdaptivePool("AdaptiveMaxPool2d", output_size) {}
};
class CT_API AdaptiveMaxPool1d : public detail::AdaptivePool<adaptive_max_pool1d, std::int64_t> {
 public:
  explicit AdaptiveMaxPool1d(std::int64_t output_size) : AdaptivePool("AdaptiveMaxPool1d", output_size) {}
};

/// interpolate() with these options.
class CT_API Upsample : public Module {
 public:
  explicit Upsample(const InterpolateOptions& options);
  Tensor forward(const Tensor& x) const { return interpolate(x, options_); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  InterpolateOptions options_;
};

}  // namespace ct::nn
