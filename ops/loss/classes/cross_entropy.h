#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct CrossEntropyOptions {
  /// A factor per class: [classes], of the logits' dtype. Undefined: 1.
  Tensor weight = {};
  /// Rows with this label count neither in the loss nor in the mean. Labels only.
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  /// Mixes each target with the uniform distribution over the classes, in [0, 1].
  double label_smoothing = 0;
};

/// The cross-entropy of softmax(logits) against labels or against distributions, per row:
///
///     labels:         y = (1 - s) w[t] (lse - x[t]) + s/C sum_c w[c] (lse - x[c])
///     distributions:  y = sum_c w[c] q[c] (lse - x[c])         with q the smoothed target: (1 - s) t + s/C
///
/// where x are the row's logits, lse = log sum_c e^x[c], w the weights of the classes, t the target, C the
/// number of classes, s the label smoothing.
///
/// logits is [classes], [n, classes] or [n, classes, d...]. target holds either i64 or i32 labels in [0,
/// classes), shaped like the logits without their class axis, as the losses are; or probabilities of the
/// logits' shape and dtype. The mean divides by the sum of w[t] over the rows that count (NaN if that is
/// 0), for distributions by the number of rows.
///
/// One pass over the logits each way: what is kept for backward is the logits themselves and two numbers per
/// row (three with distributions). Losses have the logits' dtype. Distributions get a gradient too.
/// Throws ShapeError, DTypeError, ValueError for a smoothing outside [0, 1], and IndexError for labels out of
/// range (for tensors on a GPU at the next call that waits for it).
CT_API Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                            const CrossEntropyOptions& options = {});

}  // namespace ct
