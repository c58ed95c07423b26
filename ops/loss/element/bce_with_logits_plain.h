#pragma once

#include <algorithm>
#include <cmath>

#include <cotangent/ops/engine/map/plain.h>

// The loss of one logit x, its target t and its weights w and p, and its gradient. bce_with_logits.md derives them.

namespace ct::plain {

/// softplus(x) = log(1 + e^x), and that of -x, written so that nothing overflows.
struct Softplus {
  double of_x, of_minus_x;
};
inline Softplus softplus(double x) {
  const double rest = std::log1p(std::exp(-std::abs(x)));
  return {std::max(x, 0.0) + rest, std::max(-x, 0.0) + rest};
}

/// sigmoid(x) and sigmoid(-x), of the one power that does not overflow.
struct Sigmoids {
  double of_x, of_minus_x;
};
inline Sigmoids sigmoids(double x) {
  const double e = std::exp(-std::abs(x)), large = 1 / (1 + e), small = e / (1 + e);
  return x < 0 ? Sigmoids{small, large} : Sigmoids{large, small};
}

/// y = w (p t softplus(-x) + (1 - t) softplus(x))
inline double bce_with_logits(double x, double t, double w, double p) {
  const Softplus s = softplus(x);
  return w * (p * t * s.of_minus_x + (1 - t) * s.of_x);
}

/// dx = g w ((1 - t) sigmoid(x) - p t sigmoid(-x))
inline double bce_with_logits_dx(double g, double x, double t, double w, double p) {
  const Sigmoids s = sigmoids(x);
  return g * w * ((1 - t) * s.of_x - p * t * s.of_minus_x);
}

/// dt = g w (p softplus(-x) - softplus(x))
inline double bce_with_logits_dt(double g, double x, double w, double p) {
  const Softplus s = softplus(x);
  return g * w * (p * s.of_minus_x - s.of_x);
}

}  // namespace ct::plain
