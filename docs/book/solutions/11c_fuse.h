#pragma once

#include <cmath>

namespace answer {

inline double store(double sum, double bias) { return sum + bias; }

inline double load(double kept) { return kept / (1 + std::exp(-kept)); }

/// silu(s) = s p with p = 1 / (1 + e^-s) and dp/ds = p (1 - p), so its slope is p + s p (1 - p).
inline double load_back(double g, double kept) {
  const double p = 1 / (1 + std::exp(-kept));
  return g * p * (1 + kept * (1 - p));
}

}  // namespace answer
