#pragma once

#include <cmath>
#include <cstddef>

// A layer with another function inside: y = silu(x w + b), silu(s) = s / (1 + e^-s).

namespace answer {

/// The number that is stored of a sum and its column's bias, for forward and for backward. relu's y tells its slope, silu's does not:
/// so s = sum + bias is kept in y's place, and y is computed from it by whoever reads it.
inline double store(double sum, double bias) {
  (void)sum, (void)bias;
  return 0;  // yours
}

/// y of what store() kept, for the next product's loads.
inline double load(double kept) {
  (void)kept;
  return 0;  // yours
}

/// The cotangent of s, from that of y and what store() kept, for the loads of the gradients' products.
inline double load_back(double g, double kept) {
  (void)g, (void)kept;
  return 0;  // yours
}

}  // namespace answer
