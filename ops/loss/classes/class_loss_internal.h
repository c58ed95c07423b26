#pragma once

#include <cstdint>
#include <limits>

#include <cotangent/core/op/integers_internal.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/loss/reduction.h>

// Shared by the losses over classes (nll_loss, cross_entropy).

namespace ct {

/// Target of a row.
enum class Target : std::uint8_t {
  label,     ///< a class
  smoothed,  ///< a class, with label smoothing
  soft,      ///< a distribution
  picked,    ///< a class, and x are log-probabilities: nll_loss
};

}  // namespace ct

namespace ct::loss {

/// Scores of shape [outer, classes, inner...] (or [classes]): one row per position (n, d), whose class c is
/// element (n * classes + c) * inner + d.
struct ClassLayout {
  std::int64_t outer = 1, classes = 1, inner = 1;

  ClassLayout() = default;
#ifndef CT_KERNEL_TEXT  // which has no code of the host
  explicit ClassLayout(const Shape& scores) {
    if (scores.size() == 1) {
      classes = scores[0];
      return;
    }
    outer = scores[0], classes = scores[1];
    for (int i = 2; i < scores.size(); ++i) inner *= scores[i];
  }
#endif
  CT_HD std::int64_t rows() const { return outer * inner; }
  CT_HD std::int64_t count() const { return outer * classes * inner; }
  /// Offset of class 0 of a row; the others follow at distances of `inner`.
  CT_HD std::int64_t start(std::int64_t row) const {
    return inner == 1 ? row * classes : row / inner * classes * inner + row % inner;
  }
};

using Labels = Integers;

#ifndef CT_KERNEL_TEXT
/// The shape of scores without their class axis: that of the labels, and of the losses with Reduction::none.
Shape without_classes(const Shape& scores);

/// Throws unless scores are [classes], [n, classes] or [n, classes, ...] with at least one class, and the
/// weight (if defined) is [classes]. `what` names the scores in messages.
void check_scores(const char* op, const char* what, const Tensor& scores, const Tensor& weight);
/// Throws unless labels are i64 or i32 and of the scores' shape without the class axis.
void check_label_tensor(const char* op, const char* what, const Tensor& scores, const Tensor& labels);
/// Throws IndexError for the first label that is neither ignore_index nor in [0, classes). Reads host memory.
void check_label_values(const char* op, const Labels& labels, const ClassLayout& layout,
                        std::int64_t ignore_index);

// ---- for rules: everything on the tape, with the classes along axis `class_axis(scores)` ----------------

inline int class_axis(const Shape& scores) { return scores.size() == 1 ? 0 : 1; }
/// A weight of [classes] along the class axis of scores; undefined stays undefined.
Tensor along_classes(const Tensor& weight, const Shape& scores);
/// Factor of each class's -log_softmax in the loss of a row, for labels: w[t] (1 - s) in class t
/// and w[c] s / classes in every one; 0 in rows that are ignored.
Tensor label_targets(const Tensor& labels, const Tensor& weight, const TensorMeta& scores,
                     std::int64_t ignore_index, double smoothing);
/// The cotangent of each row's loss from that of the loss, as rules::spread(); 0 for rows that are ignored.
Tensor label_cotangents(const Tensor& g, Reduction reduction, const Tensor& labels, std::int64_t ignore_index,
                        const Tensor& divisor);
/// The gradient of sum_c targets[c] (logsumexp(x) - x[c]) times `g`, one number per row.
Tensor cross_entropy_slope(const Tensor& x, const Tensor& targets, const Tensor& g);
/// The same with 0 in place of x in rows that are ignored, which may hold what is not finite.
Tensor cross_entropy_label_slope(const Tensor& x, const Tensor& labels, std::int64_t ignore_index,
                                 const Tensor& targets, const Tensor& g);
#endif

/// a + b exactly: the rounded sum, and its rounding error (Knuth's two-sum).
template <class C>
CT_HD inline void exact_sum(C a, C b, C& sum, C& rest) {
  sum = a + b;
  const C b_part = sum - a;
  rest = (a - (sum - b_part)) + (b - b_part);
}

/// Divisor of a mean: rows whose weights sum to 0 have no mean, smoothed or not.
template <class C>
CT_HD inline C mean_divisor(C weights) {
  return weights == 0 ? std::numeric_limits<C>::quiet_NaN() : weights;
}

/// A sum of losses and of their weights.
struct WeightedSum {
  double loss = 0, weight = 0;
  WeightedSum& operator+=(const WeightedSum& other) {
    loss += other.loss;
    weight += other.weight;
    return *this;
  }
};

}  // namespace ct::loss
