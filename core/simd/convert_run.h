#pragma once

#include <cstdint>

#include <cotangent/core/dtype.h>
#include <cotangent/core/simd/pack.h>

#if defined(__F16C__) && defined(__AVX__)
#include <immintrin.h>
#endif

// Runs of 16-bit elements to f32 and back, for loops that work on f32 block by block. Compilers make vectors
// of the conversions of BFloat16; those of Half have an instruction that they do not know about.

namespace ct {

template <class T>
CT_INLINE void widen_run(const T* __restrict from, std::int64_t n, float* __restrict to) {
  std::int64_t i = 0;
#if defined(__F16C__) && defined(__AVX__)
  if constexpr (std::is_same_v<T, Half>) {
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    for (; i < n; ++i) to[i] = _cvtsh_ss(from[i].bits);
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

/// Rounds to nearest even.
template <class T>
CT_INLINE void narrow_run(const float* __restrict from, std::int64_t n, T* __restrict to) {
  std::int64_t i = 0;
#if defined(__F16C__) && defined(__AVX__)
  if constexpr (std::is_same_v<T, Half>) {
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; ++i) to[i].bits = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
  }
#endif
  for (; i < n; ++i) to[i] = T(from[i]);
}

}  // namespace ct
