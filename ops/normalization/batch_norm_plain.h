#pragma once

#include <cmath>

#include <cotangent/ops/normalization/batch_norm_internal.h>

// A channel normalized, and its gradients, in the plainest way. batch_norm.md derives them.

namespace ct::plain {

/// Calls f(place) for every element of a channel.
template <class F>
void each_place(const batch_norms::Call& call, std::int64_t channel, const F& f) {
  batch_norms::each_run(call, channel, [&](std::int64_t first) {
    for (std::int64_t i = first; i < first + call.pixels; ++i) f(i);
  });
}

/// y = (x - mean) / sqrt(var + eps) w + b
inline void batch_norm(const batch_norms::Call& c, std::int64_t channel, const double* x, double w, double b,
                       double& mean, double& var, double* y) {
  const double count = static_cast<double>(c.images * c.pixels);
  if (c.training) {
    mean = var = 0;
    each_place(c, channel, [&](std::int64_t i) { mean += x[i] / count; });
    each_place(c, channel, [&](std::int64_t i) { var += (x[i] - mean) * (x[i] - mean) / count; });
  }
  each_place(c, channel, [&](std::int64_t i) { y[i] = (x[i] - mean) / std::sqrt(var + c.eps) * w + b; });
}

/// With n the normalized x: db = sum g, dw = sum g n, and dx = w / sqrt(var + eps) (g - mean(g) - n mean(g n)) where the
/// statistics are x's, else the first term alone.
inline void batch_norm_gradient(const batch_norms::Call& c, std::int64_t channel, const double* x,
                                const double* g, double w, double mean, double var, double& db, double& dw,
                                double* dx) {
  const double r = 1 / std::sqrt(var + c.eps), count = static_cast<double>(c.images * c.pixels);
  db = dw = 0;
  each_place(c, channel, [&](std::int64_t i) { db += g[i], dw += g[i] * (x[i] - mean) * r; });
  if (!dx) return;
  each_place(c, channel, [&](std::int64_t i) {
    const double through = c.training ? (db + (x[i] - mean) * r * dw) / count : 0;
    dx[i] = w * r * (g[i] - through);
  });
}

}  // namespace ct::plain
