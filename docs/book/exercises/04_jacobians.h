#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

// y = (x - mean(x)) / std(x), the heart of layer_norm. Its gradient was written in a hurry: it treats the mean and the
// deviation as if they were constants.

namespace answer {

struct Normalized {
  std::vector<double> y;
  double deviation;
};

inline Normalized normalize(const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / n;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  Normalized result{{}, std::sqrt(variance)};
  for (const double v : x) result.y.push_back((v - mean) / result.deviation);
  return result;
}

/// dx, from the cotangent g of y and what normalize() gave.
inline std::vector<double> normalize_vjp(const std::vector<double>& g, const Normalized& f) {
  std::vector<double> dx;
  for (std::size_t i = 0; i < g.size(); ++i)
    dx.push_back(g[i] / f.deviation);  // yours: two terms are missing
  return dx;
}

}  // namespace answer
