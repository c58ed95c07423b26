#pragma once

#include <limits>

#include <cotangent/ops/engine/rows/plain.h>

// masked_softmax of one row and its gradient, in the plainest way. masked_softmax.md derives them.

namespace ct::plain {

/// y = softmax(s) of s = scale x + m, where m = -inf hides whatever x is, a NaN too; 0 where nothing is seen.
inline void masked_softmax(const Row& x, const Row& m, double scale, MutableRow y) {
  constexpr double hidden = -std::numeric_limits<double>::infinity();
  y = (m == hidden).select(m, scale * x + m);
  if ((y == hidden).all()) {
    y = 0;
    return;
  }
  const Array e = exp_of(below_largest(y));
  y = e / e.sum();
}

/// ds_i = y_i (g_i - sum_j g_j y_j), which is the mask's gradient too, and dx = scale ds.
inline void masked_softmax_gradient(const Row& g, const Row& y, double scale, MutableRow dx, MutableRow ds) {
  ds = y * (g - (g * y).sum());
  dx = scale * ds;
}

}  // namespace ct::plain
