#pragma once

#include <cotangent/core/base/philox.h>

// Dropout of one element. dropout.md says where the numbers come from.

namespace ct::plain {

/// Element i is dropped if its word of the draw, one of 0 ... 2^32 - 1, is among the first p 2^32: those below `threshold`.
inline bool is_dropped(const GeneratorState& draw, std::uint64_t i, std::uint64_t threshold) {
  return threshold > 0 && philox_word(draw, i) < threshold;
}

/// y = x / (1 - p), or 0 where it is dropped
inline double dropout(double x, bool dropped, double p) { return dropped ? 0 : x / (1 - p); }

/// dx = g / (1 - p), or 0 where x was dropped
inline double dropout_gradient(double g, bool dropped, double p) { return dropped ? 0 : g / (1 - p); }

}  // namespace ct::plain
