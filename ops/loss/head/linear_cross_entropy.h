#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct LinearCrossEntropyOptions {
  /// Rows with this label count neither in the loss nor in the mean.
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  /// Mixes each label with the uniform distribution over the classes, in [0, 1].
  double label_smoothing = 0;
  /// Number of rows of logits at a time. 0: chosen by the size of a row and the device.
  std::int64_t chunk_rows = 0;
  /// Makes the logits again in backward instead of the gradients in forward: a fourth matrix product, for
  /// which only the inputs and three numbers per row are kept in between.
  bool recompute = false;
};

/// cross_entropy(linear(x, weight), target) without ever holding all logits: the head of a language model,
/// whose logits would be its largest tensor by far.
///
/// x is [..., features], weight [classes, features], of one floating dtype; target holds i64 or i32 labels in
/// [0, classes), of x's shape without its last axis, as the losses have it. Losses are in f32 also for 16-bit
/// x. The mean is over the labels that are not ignored (NaN if there are none). Under Autocast, f32 inputs
/// are converted to its dtype, as linear's are.
///
/// Where gradients are wanted, of a sum or a mean and not in f16, forward computes them, up to their scale,
/// while it has the logits of a chunk; else backward makes the logits again (see LinearCrossEntropyOptions).
/// Throws ShapeError, DTypeError, ValueError for a smoothing outside [0, 1] or a negative chunk, and
/// IndexError for labels out of range (for tensors on a GPU at the next call that waits for it).
CT_API Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                                   const LinearCrossEntropyOptions& options = {});

}  // namespace ct
