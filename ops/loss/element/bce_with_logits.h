#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct BceWithLogitsOptions {
  /// Factor of each element's loss; broadcasts to the input. Undefined: 1.
  Tensor weight = {};
  /// Factor of the loss of the positive class, against imbalance; broadcasts to the input, usually one per
  /// class: [classes]. Undefined: 1.
  Tensor pos_weight = {};
  Reduction reduction = Reduction::mean;
};

/// The binary cross-entropy of probabilities sigmoid(input) against targets in [0, 1], element by element:
///
///     y = w (p t softplus(-x) + (1 - t) softplus(x))
///
/// with x the input, t the target, w the weight, p the weight of the positive class, and softplus(x) =
/// log(1 + e^x), which loses no digits for large inputs of either sign. The mean divides
/// by the number of elements, whatever the weights. Input, target and weights have one floating dtype, input
/// and target the same shape. Input and target get gradients, the weights do not. Throws ShapeError,
/// DTypeError, DeviceError.
CT_API Tensor bce_with_logits(const Tensor& input, const Tensor& target,
                              const BceWithLogitsOptions& options = {});

}  // namespace ct
