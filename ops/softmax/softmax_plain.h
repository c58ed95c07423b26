#pragma once

#include <cotangent/ops/engine/rows/plain.h>

// softmax and log_softmax of one row and their gradients, in the plainest way. README.md derives them. Of an array of its own
// Eigen takes a maximum by vectors, of a row with a stride one element at a time.

namespace ct::plain {

/// y_i = exp(x_i) / sum_j exp(x_j); the largest x is subtracted first, so that nothing overflows.
inline void softmax(const Row& x, MutableRow y) {
  Array e = x;
  e = exp_of(e - e.maxCoeff<Eigen::PropagateNaN>());
  y = e / e.sum();
}

/// dx_i = y_i (g_i - sum_j g_j y_j)
inline void softmax_gradient(const Row& g, const Row& y, MutableRow dx) { dx = y * (g - (g * y).sum()); }

/// y_i = x_i - log sum_j exp(x_j)
inline void log_softmax(const Row& x, MutableRow y) {
  Array d = x;
  d -= d.maxCoeff<Eigen::PropagateNaN>();
  y = d - std::log(exp_of(d).sum());
}

/// dx_i = g_i - exp(y_i) sum_j g_j
inline void log_softmax_gradient(const Row& g, const Row& y, MutableRow dx) { dx = g - exp_of(y) * g.sum(); }

}  // namespace ct::plain
