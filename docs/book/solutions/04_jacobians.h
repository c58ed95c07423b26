#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

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

/// With s the deviation: dmean/dx_i = 1/n and ds/dx_i = (x_i - mean) / (n s) = y_i / n, so
/// dy_j/dx_i = ([i = j] - 1/n - y_j y_i / n) / s, and dx_i = sum_j g_j dy_j/dx_i = (g_i - mean(g) - y_i mean(g y)) / s.
inline std::vector<double> normalize_vjp(const std::vector<double>& g, const Normalized& f) {
  const auto n = static_cast<double>(g.size());
  double mean = 0, along = 0;
  for (std::size_t j = 0; j < g.size(); ++j) mean += g[j] / n, along += g[j] * f.y[j] / n;
  std::vector<double> dx;
  for (std::size_t i = 0; i < g.size(); ++i) dx.push_back((g[i] - mean - f.y[i] * along) / f.deviation);
  return dx;
}

}  // namespace answer
