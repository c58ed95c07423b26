#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/convolution/window.h>

namespace ct {

struct Conv2dOptions {
  Size2d stride = 1;
  ConvPadding padding = 0;  ///< numbers, "same" (for a stride of 1) or "valid"
  Size2d dilation = 1;      ///< from one element of the kernel to the next
  std::int64_t groups = 1;  ///< groups = C is a depthwise convolution
};
struct Conv1dOptions {
  std::int64_t stride = 1;
  ConvPadding padding = 0;  ///< one number, "same" or "valid"
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
struct ConvTranspose2dOptions {
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d output_padding =
      0;  ///< rows and columns more at the end of the result: less than stride or dilation
  std::int64_t groups = 1;
  Size2d dilation = 1;
};
struct ConvTranspose1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t groups = 1;
  std::int64_t dilation = 1;
};

/// y[n, o, p, q] = b[o] + sum_{c, i, j} x[n, c, p s + i d - pad, q s + j d - pad] w[o, c, i, j]: what is called a
/// convolution here is, as everywhere in the field, a cross-correlation.
///
/// x is [N, C, H, W] or, one image, [C, H, W]; weight [O, C / groups, kH, kW], bias [O] or undefined; all of one
/// floating dtype. y is [N, O, H', W'] (without N as x), H' = floor((H + 2 pad - d (kH - 1) - 1) / s) + 1. Outputs of
/// group k, the k-th O / groups of them, see the k-th C / groups channels. 16-bit products are summed in f32.
///
/// Differentiable to any order. Throws ShapeError where shapes, groups or a kernel larger than the padded image do not
/// fit, ValueError for a stride or dilation below 1, a negative padding, or "same" with a stride, DTypeError, DeviceError.
CT_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const Conv2dOptions& options = {});
/// The same along one axis: x [N, C, L] or [C, L], weight [O, C / groups, k].
CT_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const Conv1dOptions& options = {});

/// The gradient of conv2d with respect to its x, as a layer of its own ("deconvolution"): each element of x adds its
/// multiple of the kernel to the result.
///
/// x is [N, C, H, W] or [C, H, W]; weight [C, O / groups, kH, kW], bias [O] or undefined. The result is
/// [N, O, H', W'], H' = (H - 1) s - 2 pad + d (kH - 1) + output_padding + 1. Otherwise as conv2d.
CT_API Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTranspose2dOptions& options = {});
/// The same along one axis: x [N, C, L] or [C, L], weight [C, O / groups, k].
CT_API Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTranspose1dOptions& options = {});

}  // namespace ct
