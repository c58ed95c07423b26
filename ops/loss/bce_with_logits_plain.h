#pragma once

#include <algorithm>
#include <cmath>

#include <cotangent/ops/engine/map/plain.h>

// The loss of one logit x, its target t and its weights w and p, and its gradient. bce_with_logits.md derives them.

namespace ct::plain {

/// log(1 + e^x), written so that nothing overflows.
inline double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

/// y = w (p t softplus(-x) + (1 - t) softplus(x))
inline double bce_with_logits(double x, double t, double w, double p) {
  return w * (p * t * softplus(-x) + (1 - t) * softplus(x));
}

/// dx = g w ((1 - t) sigmoid(x) - p t sigmoid(-x))
inline double bce_with_logits_dx(double g, double x, double t, double w, double p) {
  return g * w * ((1 - t) * sigmoid(x) - p * t * sigmoid(-x));
}

/// dt = g w (p softplus(-x) - softplus(x))
inline double bce_with_logits_dt(double g, double x, double w, double p) {
  return g * w * (p * softplus(-x) - softplus(x));
}

}  // namespace ct::plain
