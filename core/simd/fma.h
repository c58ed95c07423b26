#pragma once

#include <type_traits>

#if defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ct::simd::detail {

/// a * b + c of vectors of kBytes bytes, rounded once where the machine can, by an instruction that is named: of a product and a
/// sum that only stand side by side compilers make one in some places and not in others, and bits would depend on which.
template <class T, int kBytes, class Raw>
inline __attribute__((always_inline)) Raw fused(Raw a, Raw b, Raw c) {
  [[maybe_unused]] constexpr bool is_float = std::is_same_v<T, float>, is_double = std::is_same_v<T, double>;
#if defined(__AVX512F__)
  if constexpr (is_float && kBytes == 64) return (Raw)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  if constexpr (is_double && kBytes == 64) return (Raw)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
#if defined(__FMA__)
  if constexpr (is_float && kBytes == 32) return (Raw)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  if constexpr (is_double && kBytes == 32) return (Raw)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
  if constexpr (is_float && kBytes == 16) return (Raw)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
  if constexpr (is_double && kBytes == 16) return (Raw)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#elif defined(__aarch64__)
  if constexpr (is_float && kBytes == 16)
    return (Raw)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
  if constexpr (is_double && kBytes == 16)
    return (Raw)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#endif
  return a * b + c;
}

}  // namespace ct::simd::detail
