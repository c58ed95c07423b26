#pragma once

#include <cstring>
#include <iterator>

#include <cotangent/core/simd/wide.h>

// The exponential function on the CPU of x <= 0, for those who subtract a maximum first: one product and both clamps less than for
// all x (core/simd/exp.h); softmax is mostly that. Numbers (loops over it vectorise) and vectors. Results of 16 bits are content
// with exp_coarse().

namespace ct::simd {
namespace detail {

// log 2 is split into a part of few bits, whose product with k is exact, and a rest; adding `magic` leaves k in the low
// bits; p interpolates (exp(r) - 1 - r) / r^2 at the Chebyshev nodes of |r| <= log(2) / 2, which makes exp good to 1e-8
// (float) and 2e-16 (double) before rounding.
template <class T>
struct ExpNumbers;
template <>
struct ExpNumbers<float> {
  static constexpr float log2e = 0x1.715476p+0f, magic = 0x1.8p23f;
  static constexpr float high = 0x1.62e4p-1f, low = 0x1.7f7d1cp-20f;
  static constexpr float least = -87.3365f;  // below it, exp is no normal number
  static constexpr float lowest = -104.0f, highest = 89.0f;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float p[] = {0x1.6d117cp-10f, 0x1.120be2p-7f, 0x1.555518p-5f, 0x1.5554dcp-3f, 0.5f};
};
template <>
struct ExpNumbers<double> {
  static constexpr double log2e = 0x1.71547652b82fep+0, magic = 0x1.8p52;
  static constexpr double high = 0x1.62e42fefa38p-1, low = 0x1.ef35793c7673p-45;
  static constexpr double least = -708.396;
  static constexpr double lowest = -746.0, highest = 710.0;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double p[] = {0x1.a5eb2b756a07fp-29, 0x1.b16ee17004b01p-26, 0x1.2797be2ed51ffp-22,
                                 0x1.71dcca88cbf9ep-19, 0x1.a01a208d30e6dp-16, 0x1.a01a0226f17a7p-13,
                                 0x1.6c16c16700d92p-10, 0x1.11111110fd3cdp-7,  0x1.5555555555ee0p-5,
                                 0x1.555555555558ap-3,  0x1.fffffffffffffp-2};
};

template <class To, class From>
CT_INLINE To with_bits_of(From from) {
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// X is T with U and S the unsigned and the signed integer as wide, or all three are vectors of those. t is k + magic.
template <class T, class X>
CT_INLINE X scaled_rest(X x, X& t) {
  using N = ExpNumbers<T>;
  t = x * N::log2e + N::magic;
  const X k = t - N::magic;
  const X r = (x - k * N::high) - k * N::low;
  X p = X{} + N::p[0];
  for (std::size_t i = 1; i < std::size(N::p); ++i) p = p * r + N::p[i];
  return p * r * r + r + T(1);
}

template <class T, class U, class X>
CT_INLINE X exp_nonpositive(X x) {
  using N = ExpNumbers<T>;
  X t;
  const X y = scaled_rest<T>(x, t);
  // The bits of t above k are shifted out.
  const U scale = (with_bits_of<U>(t) << N::mantissa) + (static_cast<Unsigned<T>>(N::bias) << N::mantissa);
  return x < N::least ? X{} : y * with_bits_of<X>(scale);  // false for a NaN, which passes through y
}

}  // namespace detail

/// exp(x) for x <= 0 (or NaN), within 1.1 ulp (float) or 2 (double); 0 where the result would be subnormal.
template <class T>
requires std::is_floating_point_v<T> CT_INLINE T exp_nonpositive(T x) {
  return detail::exp_nonpositive<T, detail::Unsigned<T>>(x);
}
template <class T, int kBytes>
CT_INLINE Vector<T, kBytes> exp_nonpositive(Vector<T, kBytes> x) {
  if constexpr (kBytes > kVectorBytes)
    return {exp_nonpositive(x.low), exp_nonpositive(x.high)};
  else
    return detail::exp_nonpositive<T, detail::Raw<detail::Unsigned<T>, kBytes>>(x.v);
}

/// exp(x) for x <= 0 within 7e-6 of its value, a thirtieth of what rounding to 16 bits takes away, in two thirds of the
/// instructions. Of 16-bit numbers, and of differences with what was computed of them: a NaN with other low bits is lost.
template <int kBytes>
CT_INLINE Vector<float, kBytes> exp_coarse(Vector<float, kBytes> x) {
  if constexpr (kBytes > kVectorBytes) {
    return {exp_coarse(x.low), exp_coarse(x.high)};
  } else {
    using N = detail::ExpNumbers<float>;
    using Words = detail::Raw<std::uint32_t, kBytes>;
    const auto t = x.v * N::log2e + N::magic;  // k + magic
    const auto r = x.v * N::log2e - (t - N::magic);
    // 2^r for |r| <= 1/2, the best polynomial of degree 4 that is 1 at 0; k is added to its exponent.
    const auto p =
        (((0x1.3a02ccp-7f * r + 0x1.c9fc46p-5f) * r + 0x1.ec0378p-3f) * r + 0x1.62e12cp-1f) * r + 1.0f;
    const Words y = (Words)p + ((Words)t << N::mantissa);
    return x.v < N::least ? typename Vector<float, kBytes>::Raw{} : (typename Vector<float, kBytes>::Raw)y;
  }
}
/// exp(x) for x <= 0 for a result of type T.
template <class T, int kBytes>
CT_INLINE Vector<float, kBytes> exp_nonpositive_for(Vector<float, kBytes> x) {
  if constexpr (is_16_bit<T>)
    return exp_coarse(x);
  else
    return exp_nonpositive(x);
}

}  // namespace ct::simd
