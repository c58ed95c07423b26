#pragma once

#include <cmath>

#include <cotangent/ops/engine/map/plain.h>

// The gates f of one number a and their slopes f', and y = f(a) b with its gradient. gated.md derives them.

namespace ct::plain {

/// f(a) and f'(a).
struct Gate {
  double value, slope;
};

/// silu(a) = a s, silu'(a) = s + a s (1 - s), with the sigmoid s of a
inline Gate silu(double a) {
  const double s = sigmoid(a);
  return {a * s, s + a * s * (1 - s)};
}

/// gelu(a) = a Phi(a), gelu'(a) = Phi(a) + a phi(a)
inline Gate gelu(double a) {
  const double cdf = std::erfc(-a / std::sqrt(2.0)) / 2, density = std::exp(-a * a / 2) / std::sqrt(2 * M_PI);
  return {a * cdf, cdf + a * density};
}

/// gelu_tanh(a) = a (1 + tanh u) / 2 = a s, its slope s + 2 a s (1 - s) u', with u = sqrt(2/pi) (a + 0.044715 a^3) and the
/// sigmoid s of 2u
inline Gate gelu_tanh(double a) {
  const double c = std::sqrt(2 / M_PI), u = c * (a + 0.044715 * a * a * a),
               du = c * (1 + 3 * 0.044715 * a * a), s = sigmoid(2 * u);
  return {a * s, s + 2 * a * s * (1 - s) * du};
}

/// y = f(a) b
inline double gated(Gate f, double b) { return f.value * b; }

/// da = g b f'(a)
inline double gated_da(double g, Gate f, double b) { return g * b * f.slope; }

/// db = g f(a)
inline double gated_db(double g, Gate f) { return g * f.value; }

}  // namespace ct::plain
