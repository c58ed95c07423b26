#pragma once

#include <cstddef>

namespace answer {

/// Kahan's sum. After `next = total + value`, (next - total) is the part of `value` that arrived; the rest goes into the
/// next addition. An option that lets the compiler reorder additions (-ffast-math) turns `lost` into 0.
inline float careful_sum(const float* x, std::size_t n) {
  float total = 0, lost = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = x[i] - lost;
    const float next = total + value;
    lost = (next - total) - value;
    total = next;
  }
  return total;
}

}  // namespace answer
