#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "examples/gpt/options.h"

/// The learning rate of a step (from 0): up to --lr in --warmup steps, then constant, or along half a cosine
/// down to --min-lr.
inline double learning_rate(const Options& o, std::int64_t step) {
  const double at = static_cast<double>(step), warm = static_cast<double>(o.warmup);
  if (at < warm) return o.lr * (at + 1) / (warm + 1);
  if (o.schedule == "constant") return o.lr;
  const double low = o.min_lr < 0 ? o.lr / 10 : o.min_lr;
  const double all = std::max(1.0, static_cast<double>(o.iters) - warm);
  return low + 0.5 * (o.lr - low) * (1 + std::cos(M_PI * std::min(1.0, (at - warm) / all)));
}
