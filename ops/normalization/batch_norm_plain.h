#pragma once

#include <cmath>

#include <cotangent/ops/engine/rows/plain.h>
#include <cotangent/ops/normalization/batch_norm_internal.h>

// A channel normalized, and its gradients, in the plainest way. batch_norm.md derives them.

namespace ct::plain {

/// The pixels of a channel in one image: `first` is the place of the first one.
inline Line run(const normalization::batch::Call& c, const double* x, std::int64_t first) {
  return {x + first, c.pixels};
}
inline MutableLine run(const normalization::batch::Call& c, double* y, std::int64_t first) {
  return {y + first, c.pixels};
}

/// y = (x - mean) / sqrt(var + eps) w + b
inline void batch_norm(const normalization::batch::Call& c, std::int64_t channel, const double* x, double w,
                       double b, double& mean, double& var, double* y) {
  using normalization::batch::each_run;
  if (c.training) {
    const double share = 1 / static_cast<double>(c.images * c.pixels);
    mean = var = 0;
    each_run(c, channel, [&](std::int64_t i) { mean += (run(c, x, i) * share).sum(); });
    each_run(c, channel, [&](std::int64_t i) { var += ((run(c, x, i) - mean).square() * share).sum(); });
  }
  const double r = 1 / std::sqrt(var + c.eps);
  each_run(c, channel, [&](std::int64_t i) { run(c, y, i) = (run(c, x, i) - mean) * r * w + b; });
}

/// With n the normalized x: db = sum g, dw = sum g n, and dx = w / sqrt(var + eps) (g - mean(g) - n mean(g n)) where the
/// statistics are x's, else the first term alone.
inline void batch_norm_gradient(const normalization::batch::Call& c, std::int64_t channel, const double* x,
                                const double* g, double w, double mean, double var, double& db, double& dw,
                                double* dx) {
  using normalization::batch::each_run;
  const double r = 1 / std::sqrt(var + c.eps), share = 1 / static_cast<double>(c.images * c.pixels);
  db = dw = 0;
  each_run(c, channel, [&](std::int64_t i) {
    db += run(c, g, i).sum();
    dw += (run(c, g, i) * (run(c, x, i) - mean)).sum() * r;
  });
  if (!dx) return;
  const double mean_g = c.training ? db * share : 0, mean_gn = c.training ? dw * share : 0;
  each_run(c, channel, [&](std::int64_t i) {
    run(c, dx, i) = w * r * (run(c, g, i) - mean_g - (run(c, x, i) - mean) * r * mean_gn);
  });
}

}  // namespace ct::plain
