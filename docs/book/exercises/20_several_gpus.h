#pragma once

#include <wires.h>

// A sum of all ranks, where each has one wire: to the next one.

namespace answer {

/// Leaves on every rank, in w.values, the sum of all ranks' arrays. w.send(from, to, j, add) sends part j of ranks() parts, only to
/// the next rank, of the last to the first; w.round() delivers.
inline void all_reduce(book::Wires& w) {
  // Each array goes all the way around, a part at a time, and is added up by whom it passes: p - 1 times n numbers from each.
  // Yours: 2 (p - 1) / p times n, and the same bits on every rank.
  const int p = w.ranks();
  const auto own = w.values;
  auto sums = own;
  for (int k = 1; k < p; ++k) {
    for (int j = 0; j < p; ++j) {
      for (int r = 0; r < p; ++r) w.send(r, (r + 1) % p, j, false);
      w.round();
    }
    for (std::size_t r = 0; r < sums.size(); ++r)
      for (std::size_t i = 0; i < w.size(); ++i) sums[r][i] += w.values[r][i];
  }
  w.values = sums;
}

}  // namespace answer
