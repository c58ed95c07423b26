#pragma once

#include <cotangent/ops/engine/rows/plain.h>

// softmax and log_softmax of a row, or of each row of a block, and their gradients, in the plainest way. README.md derives
// them.

namespace ct::plain {

/// y_i = exp(x_i) / sum_j exp(x_j); the largest x is subtracted first, so that nothing overflows.
inline void softmax(const auto& x, auto y) {
  const auto e = exp_of(below_largest(x));
  y = e / total(e);
}

/// dx_i = y_i (g_i - sum_j g_j y_j)
inline void softmax_gradient(const auto& g, const auto& y, auto dx) { dx = y * (g - total(g * y)); }

/// y_i = x_i - log sum_j exp(x_j)
inline void log_softmax(const auto& x, auto y) {
  const auto d = below_largest(x);
  y = d - log_total(exp_of(d));
}

/// dx_i = g_i - exp(y_i) sum_j g_j
inline void log_softmax_gradient(const auto& g, const auto& y, auto dx) { dx = g - exp_of(y) * total(g); }

}  // namespace ct::plain
