#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <cotangent/ops/engine/rows/plain.h>

// sort and topk of one row and their gradient, in the plainest way. README.md derives them.

namespace ct::plain {

/// y_j = x[i_j] is the j-th smallest of x, or the j-th largest, of equal elements the first one first. A NaN counts as larger
/// than any number. y may be shorter than x: what belongs into it is put in front, and sorted.
inline void topk(const Row& x, bool largest, MutableRow y, Positions i) {
  const auto before = [&](std::int64_t a, std::int64_t b) {
    if (x(a) < x(b)) return !largest;
    if (x(a) > x(b)) return largest;
    const bool nan_a = std::isnan(x(a)), nan_b = std::isnan(x(b));
    return nan_a == nan_b ? a < b : nan_a == largest;
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.size()));
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + y.size();
  if (y.size() < x.size() / 16) {
    std::partial_sort(order.begin(), end, order.end(),
                      before);  // by a heap of the best, which few others enter
  } else {
    std::nth_element(order.begin(), end, order.end(), before);
    std::sort(order.begin(), end, before);
  }
  std::copy_n(order.begin(), y.size(), i.begin());
  y = x(i);
}

/// dx[i_j] = g_j, and 0 elsewhere.
inline void topk_gradient(const Row& g, const Positions& i, MutableRow dx) {
  dx = 0;
  dx(i) = g;
}

}  // namespace ct::plain
