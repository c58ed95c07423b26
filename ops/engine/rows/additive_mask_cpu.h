#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/simd/vector.h>

// Reading masks of scores on the CPU, as numbers to be added: a floating mask as it is, a bool one as 0 where
// it is true and -inf where it hides.

namespace ct {

/// to[i] = element at + i * step of a T array.
template <class T, class C>
void load_elements(const void* data, std::int64_t at, std::int64_t step, std::int64_t n, C* to) {
  const T* from = static_cast<const T*>(data) + at;
  if constexpr (!std::is_same_v<T, float> && !std::is_same_v<T, double> && std::is_same_v<C, float>) {
    if (step == 1) return simd::convert_run(from, n, to);
  } else if constexpr (std::is_same_v<T, C>) {
    if (step == 1) {
      std::copy_n(from, n, to);
      return;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(from[i * step]);
}

/// n elements of a mask of any floating dtype, or bool, from element `at` on.
template <class C>
void load_additive(const void* data, DType dtype, std::int64_t at, std::int64_t step, std::int64_t n, C* to) {
  switch (dtype) {
    case DType::f32: return load_elements<float>(data, at, step, n, to);
    case DType::f64: return load_elements<double>(data, at, step, n, to);
    case DType::f16: return load_elements<Half>(data, at, step, n, to);
    case DType::bf16: return load_elements<BFloat16>(data, at, step, n, to);
    default: {
      const bool* seen = static_cast<const bool*>(data) + at;
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = seen[i * step] ? C(0) : -std::numeric_limits<C>::infinity();
    }
  }
}

}  // namespace ct
