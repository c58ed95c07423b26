#pragma once

#include <cotangent/core/simd/exp_nonpositive.h>

// The exponential function on the CPU for all x, of numbers (loops over it vectorise) and of vectors. (Drawing needs the same bits
// as CUDA and has its own: exp_exact() in engine/random/draw.h.)

namespace ct::simd {
namespace detail {

template <class T, class U, class S, class X>
CT_INLINE X exp(X x) {
  using N = ExpNumbers<T>;
  x = x < N::lowest ? X{} + N::lowest : x;  // comparisons with NaN are false: it passes
  x = x > N::highest ? X{} + N::highest : x;
  X t;
  const X y = scaled_rest<T>(x, t);
  const S k = (S)(with_bits_of<U>(t) - with_bits_of<Unsigned<T>>(N::magic)), half = k >> 1;
  return y * with_bits_of<X>((half + N::bias) << N::mantissa) *
         with_bits_of<X>((k - half + N::bias) << N::mantissa);
}

#if defined(__AVX512F__)
// One instruction multiplies by 2^k and rounds once where that is subnormal: the same bits as the two steps, in two thirds of
// the time.
template <class T>
CT_INLINE Raw<T, 64> exp(Raw<T, 64> x) {
  using N = ExpNumbers<T>;
  const auto lowest = Raw<T, 64>{} + N::lowest, highest = Raw<T, 64>{} + N::highest;
  Raw<T, 64> t;  // minimum and maximum give their second operand where one is NaN
  if constexpr (sizeof(T) == 4) {
    x = (Raw<T, 64>)_mm512_maskz_max_ps(0xffff, (__m512)lowest, (__m512)x);
    x = (Raw<T, 64>)_mm512_maskz_min_ps(0xffff, (__m512)highest, (__m512)x);
    const auto y = scaled_rest<T>(x, t);
    return (Raw<T, 64>)_mm512_maskz_scalef_ps(0xffff, (__m512)y, (__m512)(t - N::magic));
  } else {
    x = (Raw<T, 64>)_mm512_maskz_max_pd(0xff, (__m512d)lowest, (__m512d)x);
    x = (Raw<T, 64>)_mm512_maskz_min_pd(0xff, (__m512d)highest, (__m512d)x);
    const auto y = scaled_rest<T>(x, t);
    return (Raw<T, 64>)_mm512_maskz_scalef_pd(0xff, (__m512d)y, (__m512d)(t - N::magic));
  }
}
#endif

}  // namespace detail

/// exp(x) for all x, within 1.1 ulp (float) or 2 (double), from the smallest subnormal up to infinity: 2^k is multiplied
/// in two steps.
template <class T>
requires std::is_floating_point_v<T> CT_INLINE T exp(T x) {
  return detail::exp<T, detail::Unsigned<T>, detail::Signed<T>>(x);
}
template <class T, int kBytes>
CT_INLINE Vector<T, kBytes> exp(Vector<T, kBytes> x) {
#if defined(__AVX512F__)
  if constexpr (kBytes == 64) return detail::exp<T>(x.v);
#endif
  if constexpr (kBytes > kVectorBytes)
    return {exp(x.low), exp(x.high)};
  else
    return detail::exp<T, detail::Raw<detail::Unsigned<T>, kBytes>, detail::Raw<detail::Signed<T>, kBytes>>(
        x.v);
}

}  // namespace ct::simd
