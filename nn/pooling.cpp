#include <cotangent/nn/pooling.h>

#include <string>

#include <cotangent/core/error.h>

namespace ct::nn {
namespace {
std::string text(Size2d size) { return ct::detail::cat('[', size.height, ", ", size.width, ']'); }
}  // namespace

MaxPool2d::MaxPool2d(Size2d kernel_size, MaxPool2dOptions options)
    : kernel_size_(kernel_size), options_(options) {
  describe_as("MaxPool2d",
              "kernel=" + text(kernel_size) + ", stride=" + text(options.stride.value_or(kernel_size)));
}
AvgPool2d::AvgPool2d(Size2d kernel_size, AvgPool2dOptions options)
    : kernel_size_(kernel_size), options_(options) {
  describe_as("AvgPool2d",
              "kernel=" + text(kernel_size) + ", stride=" + text(options.stride.value_or(kernel_size)));
}
AdaptiveAvgPool2d::AdaptiveAvgPool2d(Size2d output_size) : output_size_(output_size) {
  describe_as("AdaptiveAvgPool2d", "output_size=" + text(output_size));
}

}  // namespace ct::nn
