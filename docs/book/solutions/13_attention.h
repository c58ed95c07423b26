#pragma once

#include <cmath>
#include <vector>

namespace answer {

struct Part {
  std::vector<double> y;
  double lse;
};

/// sum_j e^(s_j) v_j is e^lse y, of either half; both are added, and divided by e^lse_a + e^lse_b. Measured from the larger
/// lse, so that nothing overflows; if that is -infinity there was no key at all.
inline Part join(const Part& a, const Part& b) {
  const double top = std::fmax(a.lse, b.lse);
  if (top == -INFINITY) return a;
  const double of_a = std::exp(a.lse - top), of_b = std::exp(b.lse - top), sum = of_a + of_b;
  Part both{a.y, top + std::log(sum)};
  for (std::size_t c = 0; c < a.y.size(); ++c) both.y[c] = (of_a * a.y[c] + of_b * b.y[c]) / sum;
  return both;
}

}  // namespace answer
