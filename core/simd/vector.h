#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

// 64-byte vectors of the compiler's own, and exp for them: what reductions and softmax are made of on the
// CPU. The width is a part of the results' definition, so it is the same on every machine.

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // the vectors are used inside functions only

namespace ct {

template <class C>
struct Vector {
  typedef C type __attribute__((vector_size(64)));
  static constexpr int size = 64 / static_cast<int>(sizeof(C));

  static type load(const C* p) {
    type v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  /// The first n < size elements; `pad` in place of the others.
  static type load_first(const C* p, int n, C pad) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<C, float>)
      return (type)_mm512_mask_loadu_ps(_mm512_set1_ps(pad), static_cast<__mmask16>((1u << n) - 1), p);
    if constexpr (sizeof(C) == 8) {
      const type pads = type{} + pad;
      return (type)_mm512_mask_loadu_epi64((__m512i)pads, static_cast<__mmask8>((1u << n) - 1), p);
    }
#endif
    type v = type{} + pad;
    for (int i = 0; i < n; ++i) v[i] = p[i];
    return v;
  }
  static void store(C* p, type v) { std::memcpy(p, &v, sizeof v); }
  static void store_first(C* p, type v, int n) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<C, float>)
      return _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), (__m512)v);
    if constexpr (sizeof(C) == 8)
      return _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << n) - 1), (__m512i)v);
#endif
    for (int i = 0; i < n; ++i) p[i] = v[i];
  }

  /// All elements combined, always in the same order.
  template <class Combine>
  static C across(type v, Combine combine) {
    v = combine(v, rotated<size / 2>(v, std::make_integer_sequence<int, size>{}));
    v = combine(v, rotated<size / 4>(v, std::make_integer_sequence<int, size>{}));
    v = combine(v, rotated<size / 8>(v, std::make_integer_sequence<int, size>{}));
    if constexpr (size > 8) v = combine(v, rotated<1>(v, std::make_integer_sequence<int, size>{}));
    return v[0];
  }

 private:
  template <int by, int... i>
  static type rotated(type v, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(v, v, ((i + by) % size)...);
  }
};

namespace detail {

// The numbers of exp: log 2 is split into a part of few bits, whose product with k is exact, and a rest;
// adding `magic` leaves k in the low bits; p interpolates (exp(r) - 1 - r) / r^2 at the Chebyshev nodes of
// |r| <= log(2) / 2, which makes exp good to 1e-8 (float) and 2e-16 (double) before rounding.
template <class C>
struct ExpNumbers;
template <>
struct ExpNumbers<float> {
  using Bits = std::uint32_t;
  static constexpr float log2e = 0x1.715476p+0f, magic = 0x1.8p23f;
  static constexpr float high = 0x1.62e4p-1f, low = 0x1.7f7d1cp-20f;
  static constexpr float least = -87.3365f;  // below it, exp is no normal number
  static constexpr float lowest = -104.0f, highest = 89.0f;
  static constexpr int mantissa = 23;
  static constexpr Bits bias = 127;
  static constexpr float p[] = {0x1.6d117cp-10f, 0x1.120be2p-7f, 0x1.555518p-5f, 0x1.5554dcp-3f, 0.5f};
};
template <>
struct ExpNumbers<double> {
  using Bits = std::uint64_t;
  static constexpr double log2e = 0x1.71547652b82fep+0, magic = 0x1.8p52;
  static constexpr double high = 0x1.62e42fefa38p-1, low = 0x1.ef35793c7673p-45;
  static constexpr double least = -708.396;
  static constexpr double lowest = -746.0, highest = 710.0;
  static constexpr int mantissa = 52;
  static constexpr Bits bias = 1023;
  static constexpr double p[] = {0x1.a5eb2b756a07fp-29, 0x1.b16ee17004b01p-26, 0x1.2797be2ed51ffp-22,
                                 0x1.71dcca88cbf9ep-19, 0x1.a01a208d30e6dp-16, 0x1.a01a0226f17a7p-13,
                                 0x1.6c16c16700d92p-10, 0x1.11111110fd3cdp-7,  0x1.5555555555ee0p-5,
                                 0x1.555555555558ap-3,  0x1.fffffffffffffp-2};
};

// X is C, or a vector of C with Bits a vector as well.
template <class C, class X>
inline X exp_of_rest(X r) {
  using N = ExpNumbers<C>;
  X p = X{} + N::p[0];
  for (std::size_t i = 1; i < std::size(N::p); ++i) p = p * r + N::p[i];
  return p * r * r + r + C(1);
}

template <class C, class Bits, class X>
inline X exp_nonpositive(X x) {
  using N = ExpNumbers<C>;
  const X t = x * N::log2e + N::magic;
  const X k = t - N::magic;
  const X r = (x - k * N::high) - k * N::low;
  Bits bits;
  std::memcpy(&bits, &t, sizeof t);
  bits = (bits << N::mantissa) + (N::bias << N::mantissa);  // what stood above k is shifted out
  X scale;
  std::memcpy(&scale, &bits, sizeof bits);
  const X y = exp_of_rest<C>(r) * scale;
  return x < N::least ? X{} : y;  // false for a NaN, which passes through r
}

}  // namespace detail

/// exp(x) for x <= 0 (or NaN), within 1 ulp (float) or 2 (double); 0 where the result would be subnormal.
inline float exp_nonpositive(float x) { return detail::exp_nonpositive<float, std::uint32_t>(x); }
inline double exp_nonpositive(double x) { return detail::exp_nonpositive<double, std::uint64_t>(x); }
template <class C>
inline typename Vector<C>::type exp_nonpositive(typename Vector<C>::type x) {
  return detail::exp_nonpositive<C, typename Vector<typename detail::ExpNumbers<C>::Bits>::type>(x);
}

/// exp(x) for all x, with the same accuracy; loops over it vectorise. 2^k is multiplied in two steps, so that
/// results down to the smallest subnormal and up to infinity come out.
template <class C>
inline C vector_exp(C x) {
  using N = detail::ExpNumbers<C>;
  x = x < N::lowest ? N::lowest : x;  // comparisons with NaN are false: it passes
  x = x > N::highest ? N::highest : x;
  const C t = x * N::log2e + N::magic;
  const C k = t - N::magic;
  const C r = (x - k * N::high) - k * N::low;
  using Bits = typename N::Bits;
  using Signed = std::make_signed_t<Bits>;
  const Signed n = __builtin_bit_cast(Signed, t) - __builtin_bit_cast(Signed, N::magic), half = n >> 1;
  const auto power = [](Signed e) {
    return __builtin_bit_cast(C, (static_cast<Bits>(e) + N::bias) << N::mantissa);
  };
  return detail::exp_of_rest<C>(r) * power(half) * power(n - half);
}

}  // namespace ct

#pragma GCC diagnostic pop
