#pragma once

#include <cotangent/ops.h>

// Comparison of two tensors, for chapters on products.

namespace book {

/// The largest difference of two tensors, by the largest number of the second.
inline double difference(const ct::Tensor& a, const ct::Tensor& b) {
  const ct::Tensor wide = b.to(ct::f32);
  return ct::amax(ct::abs(a.to(ct::f32) - wide)).item() / ct::amax(ct::abs(wide)).item();
}

}  // namespace book
