#pragma once

#include <cotangent/ops/engine/rows/plain.h>
#include <cotangent/ops/loss/loss_plain.h>

// Shared by the plain kernels of the losses over classes: a row of scores for each label.

namespace ct::plain {

/// The rows of scores, each of all classes.
inline Rows class_rows(const Shape& scores) { return {scores, loss::class_axis(scores)}; }

/// w, one for each class: 1 where there is no tensor of weights.
inline Array class_weights(const Tensor& weight, const Shape& scores) {
  const std::int64_t classes = scores[loss::class_axis(scores)];
  if (!weight.defined()) return Eigen::ArrayXd::Ones(classes);
  return Eigen::Map<const Eigen::ArrayXd>(weight.data<double>(), classes);
}

/// w_t alone.
inline double class_weight(const Tensor& weight, std::int64_t t) {
  return weight.defined() ? weight.data<double>()[t] : 1;
}

/// reduce_losses over rows of scores.
template <class F>
double reduce_rows(Reduction reduction, const Shape& scores, const Tensor& y, const F& loss_of) {
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / scores[loss::class_axis(scores)]);
  return reduce_losses(reduction, class_rows(scores).count(), grain, y, loss_of);
}

}  // namespace ct::plain
