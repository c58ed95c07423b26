#pragma once

#include <cstddef>

// A sum that remembers what each addition rounds away.

namespace answer {

/// The sum of n numbers, in f32 alone: one pass, and no error that grows with n.
inline float careful_sum(const float* x, std::size_t n) {
  float total = 0;
  for (std::size_t i = 0; i < n; ++i) total += x[i];  // yours: what did this addition lose?
  return total;
}

}  // namespace answer
