#pragma once

#include <cstdint>
#include <optional>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/convolution/window.h>
#include <cotangent/ops/reduce/reduce.h>

// Pools: one number for each window of an image. x is [N, C, H, W], or [C, H, W] for one image, of a floating dtype; the
// result has the windows' numbers in the place of H and W. The forms of one axis take [N, C, L] or [C, L].
//
// All throw ShapeError where ranks or sizes do not fit, ValueError for a kernel, stride or dilation below 1, or for a
// padding that is negative or more than half of the kernel, DTypeError.

namespace ct {

/// A stride, or none: then windows lie side by side.
using PoolStride = OptionalSize2d;

struct MaxPool2dOptions {
  PoolStride stride = {};  ///< left out: the kernel's size
  Size2d padding = 0;      ///< of elements that never win
  Size2d dilation = 1;
  bool ceil_mode = false;  ///< also windows that reach over the end, if they begin before it
};
struct AvgPool2dOptions {
  PoolStride stride = {};
  Size2d padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;      ///< zeros of the padding count as elements
  std::int64_t divisor_override = 0;  ///< sums are divided by this instead of the number of elements; 0: no
};

/// The largest element of each window; of equal ones the first gets the gradient. A NaN wins.
CT_API Tensor max_pool2d(const Tensor& x, Size2d kernel_size, const MaxPool2dOptions& options = {});
/// The same, and where it stands: i64, counted through the rows of its image; -1 in a window that holds no element.
CT_API ValuesIndices max_pool2d_with_indices(const Tensor& x, Size2d kernel_size,
                                             const MaxPool2dOptions& options = {});
/// The mean of each window.
CT_API Tensor avg_pool2d(const Tensor& x, Size2d kernel_size, const AvgPool2dOptions& options = {});
/// The mean, or the largest, of each of so many windows as even as whole elements allow: along an axis of n elements
/// window p of m is [floor(p n / m), ceil((p + 1) n / m)).
CT_API Tensor adaptive_avg_pool2d(const Tensor& x, Size2d output_size);
CT_API Tensor adaptive_max_pool2d(const Tensor& x, Size2d output_size);

struct MaxPool1dOptions {
  std::optional<std::int64_t> stride = {};
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  bool ceil_mode = false;
};
struct AvgPool1dOptions {
  std::optional<std::int64_t> stride = {};
  std::int64_t padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
};
CT_API Tensor max_pool1d(const Tensor& x, Integer kernel_size, const MaxPool1dOptions& options = {});
CT_API Tensor avg_pool1d(const Tensor& x, Integer kernel_size, const AvgPool1dOptions& options = {});
CT_API Tensor adaptive_avg_pool1d(const Tensor& x, Integer output_size);
CT_API Tensor adaptive_max_pool1d(const Tensor& x, Integer output_size);

}  // namespace ct
