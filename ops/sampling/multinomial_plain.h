#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include <cotangent/ops/engine/random/draw.h>
#include <cotangent/ops/engine/rows/plain.h>

// multinomial of one row, in the plainest way. multinomial.md says why weights become integers.

namespace ct::plain {

/// y_j = i with probability w_i / sum(w): where the running sum of w passes u_j sum(w), with u_j word first + j of a draw.
/// Without replacement w_i is 0 from then on. Returns how many could be drawn.
inline std::int64_t multinomial(const Row& w, bool replacement, const GeneratorState& draw,
                                std::uint64_t first, Positions y) {
  const double top = w.maxCoeff();
  const int bits = random::weight_bits(w.size());
  std::vector<std::uint64_t> whole;
  for (const double v : w) whole.push_back(random::weight(v, top, bits));
  std::uint64_t sum = std::accumulate(whole.begin(), whole.end(), std::uint64_t{0});
  for (std::int64_t j = 0; j < y.size(); ++j) {
    if (sum == 0) return j;
    y(j) = random::walk(whole.data(), random::target(draw, first + static_cast<std::uint64_t>(j), sum));
    if (!replacement) sum -= std::exchange(whole[static_cast<std::size_t>(y(j))], 0);
  }
  return y.size();
}

}  // namespace ct::plain
