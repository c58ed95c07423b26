#pragma once

#include <array>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/normalization/norm_use.h>

namespace ct {

/// Layer normalization (Ba, Kiros, Hinton 2016) over the last axis, or over as many trailing axes as the
/// weight has (or the bias, where there is no weight): y = xhat w + b, xhat = (x - mean) / sqrt(var + eps),
/// with mean and (biased) variance of each row, w the weight and b the bias.
///
/// weight and bias have the shape of those axes; either may be undefined and is then 1 or 0. All are of one
/// floating dtype, and so is y. 16-bit types are computed in f32 and rounded once. The gradients of all three
/// are added to existing ones by the kernel itself.
/// Throws ShapeError for a scalar or where shapes do not fit, ValueError for an eps that is negative or not
/// finite, DTypeError, DeviceError. Gradient:
/// dx = (g w - mean(g w) - xhat mean(g w xhat)) / sqrt(var + eps).
CT_API Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                         double eps = 1e-5);

/// {layer_norm(sum), sum} with sum = x + residual, in one pass: what stands between the blocks of a
/// transformer. residual has x's shape. Gradients flow through both results. Otherwise as layer_norm.
///
/// Under Autocast the sum is f32, like the parameters and the statistics, and the normalized rows have
/// Autocast's dtype, unless `use` is NormUse::stream: then they are f32, too. Of x and residual one may have
/// Autocast's dtype while the other is f32, in either order, and is not converted beforehand: f32 holds it
/// exactly. The bits are those of the addition and layer_norm in f32, rounded. A 16-bit addend's gradient has
/// 16 bits.
CT_API std::array<Tensor, 2> add_layer_norm(const Tensor& x, const Tensor& residual,
                                            const Tensor& weight = {}, const Tensor& bias = {},
                                            double eps = 1e-5, NormUse use = NormUse::product);

}  // namespace ct
