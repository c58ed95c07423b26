#pragma once

#include <cotangent/ops/engine/rows/plain.h>

// One row of x turned by the angles of its position, and its gradient. README.md derives them.

namespace ct::plain {

/// cos and sin of the angles phi of a position: it times the frequency of each pair.
struct Turn {
  Array cos, sin;
};
inline Turn turn_of(double position, const Row& frequency) {
  const Array phi = position * frequency;
  return {phi.cos(), phi.sin()};
}

/// Each pair (a, b) of x is turned by the angle phi of its place:
///     y = (a cos phi - b sin phi, a sin phi + b cos phi)
/// Pair i is elements 2i and 2i + 1 if they are interleaved, else i and i + pairs. The rest of the row stays.
inline void rotary_embedding(const Row& x, const Turn& phi, bool interleaved, MutableRow y) {
  y = x;
  const std::int64_t pairs = phi.cos.size();
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + pairs;
    const double a = x[first], b = x[second];
    y[first] = a * phi.cos[i] - b * phi.sin[i];
    y[second] = a * phi.sin[i] + b * phi.cos[i];
  }
}

/// dx = R(phi)^T g = R(-phi) g: the cotangent turned back.
inline void rotary_embedding_gradient(const Row& g, const Turn& phi, bool interleaved, MutableRow dx) {
  rotary_embedding(g, {phi.cos, -phi.sin}, interleaved, dx);
}

}  // namespace ct::plain
