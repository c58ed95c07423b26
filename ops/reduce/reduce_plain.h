#pragma once

#include <cmath>
#include <limits>

#include <cotangent/ops/engine/rows/plain.h>

// The reductions of one row and their gradients, in the plainest way: g is the cotangent of the row's result, n its length.
// README.md derives them.

namespace ct::plain {

/// y = sum_i x_i; dx_i = g
inline double sum(const Row& x) { return x.sum(); }
inline void sum_gradient(double g, MutableRow dx) { dx = g; }

/// y = sum_i x_i / n; dx_i = g / n
inline double mean(const Row& x) { return x.sum() / static_cast<double>(x.size()); }
inline void mean_gradient(double g, MutableRow dx) { dx = g / static_cast<double>(dx.size()); }

/// y = product of x_i; dx_i = g times the product of all others
inline double prod(const Row& x) { return x.prod(); }
inline void prod_gradient(const Row& x, double g, MutableRow dx) {
  for (Eigen::Index i = 0; i < x.size(); ++i) dx[i] = g * x.head(i).prod() * x.tail(x.size() - i - 1).prod();
}

/// The position of the first largest element, or smallest; a NaN is larger and smaller than everything.
inline Eigen::Index position(const Row& x, bool smallest) {
  Eigen::Index best = 0;
  for (Eigen::Index i = 1; i < x.size() && !std::isnan(x[best]); ++i)
    if (std::isnan(x[i]) || (smallest ? x[i] < x[best] : x[i] > x[best])) best = i;
  return best;
}
/// dx_i = g at that position, else 0
inline void position_gradient(Eigen::Index position, double g, MutableRow dx) {
  dx.setZero();
  dx[position] = g;
}
/// dx_i = g / ties where x_i = y, else 0
inline void extremum_gradient(const Row& x, double y, double g, MutableRow dx) {
  if (std::isnan(y)) {
    dx = x.isNaN().cast<double>();
  } else {
    dx = (x == y).cast<double>();
  }
  dx *= g / dx.sum();
}

/// y = sum_i (x_i - mean)^2 / (n - c), infinite or NaN where n <= c; dx_i = 2 g (x_i - mean) / (n - c)
inline double var(const Row& x, double c) {
  return (x - mean(x)).square().sum() / std::max(0.0, static_cast<double>(x.size()) - c);
}
inline void var_gradient(const Row& x, double c, double g, MutableRow dx) {
  dx = 2 * g * (x - mean(x)) / std::max(0.0, static_cast<double>(x.size()) - c);
}

/// y = sqrt(var(x)); dx_i = g (x_i - mean) / ((n - c) y), 0 where y = 0
inline double stddev(const Row& x, double c) { return std::sqrt(var(x, c)); }
inline void stddev_gradient(const Row& x, double c, double g, MutableRow dx) {
  const double y = stddev(x, c);
  var_gradient(x, c, y == 0 ? 0 : g / (2 * y), dx);
}

/// y = (sum_i |x_i|^p)^(1/p); of order 0 the number of x_i != 0, of infinite order the largest |x_i|, or smallest
inline double norm(const Row& x, double p) {
  if (std::isinf(p))
    return p < 0 ? x.abs().minCoeff<Eigen::PropagateNaN>() : x.abs().maxCoeff<Eigen::PropagateNaN>();
  return p == 0 ? (x != 0).cast<double>().sum() : std::pow(x.abs().pow(p).sum(), 1 / p);
}
/// dx_i = g sign(x_i) (|x_i| / y)^(p - 1), 0 where x_i or y is 0; of infinite order g sign(x_i) / ties where |x_i| = y
inline void norm_gradient(const Row& x, double p, double g, MutableRow dx) {
  const double y = norm(x, p);
  const Array size = x.abs();
  if (std::isinf(p)) {
    extremum_gradient(Row(size.data(), size.size(), Eigen::InnerStride<>(1)), y, g, dx);
    dx *= x.sign();
  } else if (p == 0 || y == 0) {
    dx.setZero();
  } else {
    dx = (size == 0).select(0.0, g * x.sign() * (size / y).pow(p - 1));
  }
}

/// y = log sum_i exp(x_i), after the largest is subtracted; an infinite one is y
inline double logsumexp(const Row& x) {
  if (x.size() == 0) return -std::numeric_limits<double>::infinity();
  const double largest = x[position(x, false)];
  return std::isfinite(largest) ? largest + std::log((x - largest).exp().sum()) : largest;
}
/// dx_i = g exp(x_i) / sum_j exp(x_j), after the largest is subtracted; 0 where all are -inf
inline void logsumexp_gradient(const Row& x, double g, MutableRow dx) {
  const double largest = x[position(x, false)];
  const Array e = exp_of(x - (std::isinf(largest) && largest < 0 ? 0 : largest));
  dx = g * e / (std::isinf(largest) ? 1 : e.sum());
}

}  // namespace ct::plain
