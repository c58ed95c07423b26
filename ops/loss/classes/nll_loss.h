#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct NllLossOptions {
  /// A factor per class: [classes], of the scores' dtype. Undefined: 1.
  Tensor weight = {};
  /// Rows with this label count neither in the loss nor in the mean.
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

/// The negative log-likelihood of labels: y[r] = -w[t_r] x[r, t_r], with x the log_probs and t the target.
///
/// log_probs is [classes], [n, classes] or [n, classes, d...] and holds logarithms of probabilities (see
/// log_softmax; cross_entropy does both at once); target holds i64 or i32 labels in [0, classes) and has the
/// same shape without the class axis, as the losses do. The mean is weighted: sum of losses / sum of
/// weight[label]; it is NaN if that sum is 0. Throws ShapeError, DTypeError, and IndexError for labels
/// out of range (for tensors on a GPU at the next call that waits for it).
CT_API Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllLossOptions& options = {});

}  // namespace ct
