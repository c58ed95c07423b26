#pragma once

#include <array>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/normalization/norm_use.h>

namespace ct {

/// Root mean square normalization (Zhang, Sennrich 2019) over the last axis, or over as many trailing axes as
/// the weight has: y = xhat w, xhat = x / sqrt(mean(x^2) + eps), w the weight.
///
/// weight has the shape of those axes or is undefined, which stands for 1. All are of one floating dtype, and
/// so is y. 16-bit types are computed in f32 and rounded once. Both gradients are added to existing ones by
/// the kernel itself. Throws ShapeError for a scalar or where shapes do not fit, ValueError for an eps
/// that is negative or not finite, DTypeError, DeviceError. Gradient:
/// dx = (g w - xhat mean(g w xhat)) / sqrt(mean(x^2) + eps).
/// (nn::RMSNorm has another default of eps: the dtype's epsilon, as PyTorch's.)
CT_API Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6);

/// {rms_norm(sum), sum} with sum = x + residual, in one pass. residual has x's shape. Gradients flow through
/// both results. Otherwise as rms_norm.
///
/// Under Autocast as add_layer_norm: the sum stays f32, the normalized rows have Autocast's dtype unless
/// `use` says otherwise, and one of x and residual may have 16 bits while the other is f32.
CT_API std::array<Tensor, 2> add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight = {},
                                          double eps = 1e-6, NormUse use = NormUse::product);

}  // namespace ct
