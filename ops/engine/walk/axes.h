#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <cotangent/core/base/shape.h>

// The one planner of axes: reduces several layouts to the axes that matter.

namespace ct {

/// Axes of K layouts that are walked together, the outermost first. Axes of size 1 are left out, and those that continue
/// one another in all layouts are merged: two contiguous tensors have one axis, a matrix and its transpose two.
template <int K>
struct Axes {
  using Steps = std::array<std::int64_t, K>;

  int rank = 0;
  std::array<std::int64_t, kMaxRank> size;
  std::array<Steps, kMaxRank> stride;  // by axis and layout, in elements

  /// Adds an axis inside of those before.
  constexpr void append(std::int64_t n, const Steps& steps) {
    if (n == 1) return;
    bool merges = rank > 0;
    for (int k = 0; k < K && merges; ++k) merges = stride[rank - 1][k] == n * steps[k];
    if (!merges) size[rank++] = 1;
    size[rank - 1] *= n;
    stride[rank - 1] = steps;
  }
  /// Sorts the axes by the strides of the first layout, the largest outermost, and by the next where they are equal:
  /// that layout is then walked in the order of its addresses. Axes that lie end to end now are merged.
  constexpr void sort() {
    const Axes before = *this;
    std::array<int, kMaxRank> order;
    for (int i = 0; i < rank; ++i) {
      int at = i;
      for (; at > 0 && before.stride[order[at - 1]] < before.stride[i]; --at) order[at] = order[at - 1];
      order[at] = i;
    }
    rank = 0;
    for (int i = 0; i < before.rank; ++i) append(before.size[order[i]], before.stride[order[i]]);
  }
};

}  // namespace ct
