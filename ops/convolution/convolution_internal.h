#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/convolution/window.h>

// Shared by the three ops of a convolution. README.md: each of x, weight and y is computed from the other two.

namespace ct::convolution {

struct Attrs {
  Size2d stride = 1;
  Size2d padding = 0;      // before the image
  Size2d padding_end = 0;  // after it; below 0 where the last elements of the image are not looked at
  Size2d dilation = 1;
  std::int64_t groups = 1;
  Size2d kernel = 0;  // of conv2d_weight, whose inputs do not tell it
};

/// The tensors of a convolution: [N, C, H, W], [O, C / groups, kH, kW], [N, O, H', W'].
enum class Part : std::uint8_t { x, weight, y };
/// Roles: which of the three tensors are an op's inputs, and which is its result.
struct Roles {
  Part inputs[2], result;
};
inline constexpr Roles kForward{{Part::x, Part::weight}, Part::y};
inline constexpr Roles kTransposed{{Part::y, Part::weight}, Part::x};
inline constexpr Roles kWeight{{Part::x, Part::y}, Part::weight};

/// One axis of the window: element p of y sees, under tap i, element p * stride + i * dilation - padding of x.
struct Axis {
  std::int64_t in, out, kernel, stride, padding, dilation;

  std::int64_t seen(std::int64_t p, std::int64_t i) const { return p * stride + i * dilation - padding; }
  /// The elements of y that see one inside of x under tap i are those in [first, last).
  struct Range {
    std::int64_t first, last;
  };
  Range inside(std::int64_t i) const {
    const auto reach = [&](std::int64_t at) {  // the least p >= 0 with seen(p, i) >= at, or out
      const std::int64_t missing = at - seen(0, i);
      return missing <= 0 ? 0 : std::min(out, (missing + stride - 1) / stride);
    };
    return {reach(0), reach(in)};
  }
};

struct Geometry {
  std::int64_t batch, channels, filters, groups;
  Axis height, width;

  Geometry(const Attrs& attrs, const Shape& x, const Shape& weight, const Shape& y)
      : batch(x[0]),
        channels(x[1]),
        filters(y[1]),
        groups(attrs.groups),
        height{x[2], y[2], weight[2], attrs.stride.height, attrs.padding.height, attrs.dilation.height},
        width{x[3], y[3], weight[3], attrs.stride.width, attrs.padding.width, attrs.dilation.width} {}

  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t group_filters() const { return filters / groups; }
  std::int64_t taps() const { return height.kernel * width.kernel; }
  std::int64_t in_pixels() const { return height.in * width.in; }
  std::int64_t out_pixels() const { return height.out * width.out; }
  std::int64_t depth() const { return group_channels() * taps(); }  // elements of one filter
  /// Depthwise, more or less: there is no matrix worth unfolding anything for.
  bool thin() const { return group_channels() == 1 && group_filters() <= 8; }
};

/// One of the three computed from the others, all contiguous and not empty but for the inputs: `result` is written.
struct Job {
  const char* op;
  Geometry g;
  Part result;
  std::array<const Tensor*, 3> parts;  // by Part
  const Tensor* bias = nullptr;        // along axis 1 of x or y
  bool accumulate = false;             // add to a weight that is there

  template <class T>
  T* data(Part p) const {
    return static_cast<T*>(parts[static_cast<std::size_t>(p)]->raw_data());
  }
  const Tensor& out() const { return *parts[static_cast<std::size_t>(result)]; }
};
using Run = void (*)(const Job&);

CT_API void forward(const Forward& f, const Roles& roles, Run run);
CT_API void backward(const Backward& b, const Roles& roles, Run run);

/// The kernels of the ops, made of what computes any of the three parts.
template <Run run>
struct KernelsOf {
  template <Roles roles>
  static void forward(const Forward& f) {
    convolution::forward(f, roles, run);
  }
  template <Roles roles>
  static void backward(const Backward& b) {
    convolution::backward(b, roles, run);
  }
};

}  // namespace ct::convolution

/// The entries of a device's table of kernels (CT_KERNELS), made of what computes any part.
#define CT_CONVOLUTION_KERNELS(run)                                                        \
  {"conv2d", convolution::KernelsOf<run>::forward<convolution::kForward>,                  \
   convolution::KernelsOf<run>::backward<convolution::kForward>},                          \
      {"conv_transpose2d", convolution::KernelsOf<run>::forward<convolution::kTransposed>, \
       convolution::KernelsOf<run>::backward<convolution::kTransposed>},                   \
  {                                                                                        \
    "conv2d_weight", convolution::KernelsOf<run>::forward<convolution::kWeight>,           \
        convolution::KernelsOf<run>::backward<convolution::kWeight>                        \
  }
