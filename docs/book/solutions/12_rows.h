#pragma once

namespace answer {

struct Part {
  float count = 0, mean = 0, squares = 0;
};

inline Part of_one(float x) { return {1, x, 0}; }

/// Around the common mean M instead of their own, a's squares are sum (x - M)^2 = squares_a + n_a (mean_a - M)^2, as
/// sum (x - mean_a) is 0. With d = mean_b - mean_a: mean_a - M = -d n_b / n and mean_b - M = d n_a / n, so that the two new
/// terms are d^2 (n_a n_b^2 + n_b n_a^2) / n^2 = d^2 n_a n_b / n. Only differences are squared (Chan, Golub, LeVeque 1979).
inline Part join(const Part& a, const Part& b) {
  Part both;
  both.count = a.count + b.count;
  const float d = b.mean - a.mean, share = b.count / both.count;
  both.mean = a.mean + d * share;
  both.squares = a.squares + b.squares + d * d * a.count * share;
  return both;
}

}  // namespace answer
