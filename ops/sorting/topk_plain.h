#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <cotangent/ops/engine/rows/plain.h>

// sort and topk of one row and their gradient, in the plainest way. README.md derives them.

namespace ct::plain {

/// y_j = x[i_j] is the j-th smallest of x, or the j-th largest: the row is sorted, of equal elements the first stays first.
/// A NaN counts as larger than any number. y may be shorter than x.
inline void topk(const Row& x, bool largest, MutableRow y, Positions i) {
  const auto less = [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return largest ? less(x(b), x(a)) : less(x(a), x(b));
  });
  std::copy_n(order.begin(), y.size(), i.begin());
  y = x(i);
}

/// dx[i_j] = g_j, and 0 elsewhere.
inline void topk_gradient(const Row& g, const Positions& i, MutableRow dx) {
  dx = 0;
  dx(i) = g;
}

}  // namespace ct::plain
