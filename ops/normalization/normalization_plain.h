#pragma once

#include <cmath>

#include <cotangent/ops/engine/rows/plain.h>

// layer_norm and rms_norm of one row and their gradients, in the plainest way. Where a residual is added, x is the sum.
// layer_norm.md and rms_norm.md derive them.

namespace ct::plain {

/// 1 / sqrt(mean(d^2) + eps), of lengths instead of squares: those leave the range sooner.
inline double inverse_deviation(const Array& d, double eps) {
  return 1 / std::hypot(d.matrix().stableNorm() / std::sqrt(static_cast<double>(d.size())), std::sqrt(eps));
}

/// m = mean(x), rstd = 1 / sqrt(mean((x - m)^2) + eps), y = (x - m) rstd w + b
inline void layer_norm(const Line& x, const Line& w, const Line& b, double eps, double& m, double& rstd,
                       MutableLine y) {
  m = x(0) + (x - x(0)).mean();  // around an element: far from 0 the sum's rounding would count as spread
  rstd = inverse_deviation(x - m, eps);
  y = (x - m) * rstd * w + b;
}

/// With xhat = (x - m) rstd and u = g w: dx = rstd (u - mean(u) - xhat mean(u xhat)), dw = sum_n g xhat over the rows n,
/// db = sum_n g. Each is added to what is there.
inline void layer_norm_gradient(const Line& g, const Line& x, const Line& w, double m, double rstd,
                                MutableLine dx, MutableLine dw, MutableLine db) {
  const Array xhat = (x - m) * rstd, u = g * w;
  dx += rstd * (u - u.mean() - xhat * (u * xhat).mean());
  dw += g * xhat;
  db += g;
}

/// rstd = 1 / sqrt(mean(x^2) + eps), y = x rstd w
inline void rms_norm(const Line& x, const Line& w, double eps, double& rstd, MutableLine y) {
  rstd = inverse_deviation(x, eps);
  y = x * rstd * w;
}

/// With xhat = x rstd and u = g w: dx = rstd (u - xhat mean(u xhat)), dw = sum_n g xhat. Each is added to what is there.
inline void rms_norm_gradient(const Line& g, const Line& x, const Line& w, double rstd, MutableLine dx,
                              MutableLine dw) {
  const Array xhat = x * rstd, u = g * w;
  dx += rstd * (u - xhat * (u * xhat).mean());
  dw += g * xhat;
}

}  // namespace ct::plain
