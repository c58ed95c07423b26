#pragma once

#include <cotangent/ops/engine/rows/plain.h>

// One row of x turned by the angles of its position, and its gradient. README.md derives them.

namespace ct::plain {

/// Each pair (a, b) of x is turned by phi, the row's position times the pair's frequency:
///     y = (a cos phi - b sin phi, a sin phi + b cos phi)
/// Pair i is elements 2i and 2i + 1 if they are interleaved, else i and i + pairs. The rest of the row stays.
inline void rotary_embedding(const Row& x, double position, const double* frequency, std::int64_t pairs,
                             bool interleaved, MutableRow y) {
  y = x;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + pairs;
    const double a = x[first], b = x[second], phi = position * frequency[i];
    y[first] = a * std::cos(phi) - b * std::sin(phi);
    y[second] = a * std::sin(phi) + b * std::cos(phi);
  }
}

/// dx = R(phi)^T g = R(-phi) g: the cotangent turned back, as by the negative position.
inline void rotary_embedding_gradient(const Row& g, double position, const double* frequency,
                                      std::int64_t pairs, bool interleaved, MutableRow dx) {
  rotary_embedding(g, -position, frequency, pairs, interleaved, dx);
}

}  // namespace ct::plain
