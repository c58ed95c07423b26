#pragma once

#include <cotangent/core/tensor/tensor.h>

namespace ct::linear_impl {

/// relu(linear(x, weight, bias)) as one op, what nn::Sequential runs for a Linear before a ReLU: y = max(x w^T + b, 0).
/// Shapes, dtypes and errors are those of linear; a NaN stays one. On the CPU values and gradients have the bits of the two ops.
Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace ct::linear_impl
