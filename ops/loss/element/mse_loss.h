#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct MseLossOptions {
  Reduction reduction = Reduction::mean;
};

/// The squared error (input - target)^2 of each element; their mean, or their sum, as a scalar.
///
/// Both tensors have the same shape and floating dtype: nothing is broadcast, since [n] against [n, 1] is a
/// mistake more often than a wish. The mean over no elements is NaN. Both get gradients.
/// Throws ShapeError, DTypeError, DeviceError.
CT_API Tensor mse_loss(const Tensor& input, const Tensor& target, const MseLossOptions& options = {});

}  // namespace ct
