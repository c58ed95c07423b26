#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// A fully connected layer: y = x w^T + b, that is y[..., o] = sum_i x[..., i] w[o, i] + b[o].
///
/// x is [..., in], weight [out, in], bias [out] or undefined; y is [..., out], all of one floating dtype. One
/// product for all rows, with the bias added as it is written. The gradients of x and weight are added to
/// existing ones inside their products.
///
/// Throws ShapeError if x is a scalar or sizes do not fit, DTypeError, DeviceError.
CT_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace ct
