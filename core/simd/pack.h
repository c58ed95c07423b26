#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

// Pack<T>: as many numbers as one vector register holds, with the operators of a number. A formula that is
// written once for a number type X serves the CPU with X = Pack<float> and the GPU with X = Lane<float>
// (engine/map/lane.cuh). Compute types are float, double and std::int64_t.
//
// Everything is always inlined: a vector argument of a real call would depend on the target's ABI.

#define CT_INLINE inline __attribute__((always_inline))

namespace ct::elementwise {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

// A signed integer as wide as T: what comparisons of packs give, lane by lane 0 or -1.
template <class T>
using MaskInt = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
// T itself, or the unsigned integer that wraps around where T must not overflow.
template <class T>
using WrappingInt = std::conditional_t<std::is_same_v<T, std::int64_t>, std::uint64_t,
                                       std::conditional_t<std::is_same_v<T, std::int32_t>, std::uint32_t, T>>;
template <class T>
struct Raw {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};

/// A truth value per lane of a Pack<T>.
template <class T>
struct PackMask {
  using Vector = typename Raw<MaskInt<T>>::type;
  Vector v;

  CT_INLINE friend PackMask operator&(PackMask a, PackMask b) { return {a.v & b.v}; }
  CT_INLINE friend PackMask operator|(PackMask a, PackMask b) { return {a.v | b.v}; }
  CT_INLINE friend PackMask operator^(PackMask a, PackMask b) { return {a.v ^ b.v}; }
  CT_INLINE friend PackMask operator!(PackMask a) { return {~a.v}; }
};

template <class T>
struct Pack {
  using Scalar = T;
  using Vector = typename Raw<T>::type;
  using Mask = PackMask<T>;
  using Wrapping = typename Raw<WrappingInt<T>>::type;
  static constexpr int kSize = kVectorBytes / static_cast<int>(sizeof(T));

  Vector v;

  Pack() = default;
  CT_INLINE Pack(Vector v) : v(v) {}
  /// The same number in every lane.
  template <class S>
  requires std::is_arithmetic_v<S> CT_INLINE Pack(S s) : v(static_cast<T>(s) - Vector{}) {}

  static CT_INLINE Pack load(const T* from) {
    Pack p;
    std::memcpy(&p.v, from, sizeof(Vector));
    return p;
  }
  CT_INLINE void store(T* to) const { std::memcpy(to, &v, sizeof(Vector)); }

  // Integers wrap around: their sums and products are those of the unsigned numbers.
  CT_INLINE friend Pack operator+(Pack a, Pack b) { return (Vector)((Wrapping)a.v + (Wrapping)b.v); }
  CT_INLINE friend Pack operator-(Pack a, Pack b) { return (Vector)((Wrapping)a.v - (Wrapping)b.v); }
  CT_INLINE friend Pack operator*(Pack a, Pack b) { return (Vector)((Wrapping)a.v * (Wrapping)b.v); }
  CT_INLINE friend Pack operator/(Pack a, Pack b) { return a.v / b.v; }
  CT_INLINE friend Pack operator-(Pack a) { return (Vector)(-(Wrapping)a.v); }
  CT_INLINE friend Mask operator<(Pack a, Pack b) { return {a.v < b.v}; }
  CT_INLINE friend Mask operator<=(Pack a, Pack b) { return {a.v <= b.v}; }
  CT_INLINE friend Mask operator>(Pack a, Pack b) { return {a.v > b.v}; }
  CT_INLINE friend Mask operator>=(Pack a, Pack b) { return {a.v >= b.v}; }
  CT_INLINE friend Mask operator==(Pack a, Pack b) { return {a.v == b.v}; }
  CT_INLINE friend Mask operator!=(Pack a, Pack b) { return {a.v != b.v}; }
  /// a where m holds, else b. Both are computed; the other one's NaN does not leak.
  CT_INLINE friend Pack where(Mask m, Pack a, Pack b) { return m.v ? a.v : b.v; }

  // The bits of every lane as integers and back, for the polynomials in engine/map/math_cpu.h.
  using Bits = typename Raw<MaskInt<T>>::type;
  CT_INLINE Bits bits() const { return (Bits)v; }
  static CT_INLINE Pack from_bits(Bits b) { return (Vector)b; }
  // bits() - b, wrapping around.
  CT_INLINE Bits bits_less(MaskInt<T> b) const {
    using Unsigned = typename Raw<WrappingInt<MaskInt<T>>>::type;
    return (Bits)((Unsigned)v - static_cast<WrappingInt<MaskInt<T>>>(b));
  }
};

// ---- Partial vectors: the last, short one of a tile. Lanes past the end read as 0 and are not written. ----

template <class T>
CT_INLINE Pack<T> load_first(const T* from, int count) {
#if defined(__AVX512F__)
  Pack<T> p;
  if constexpr (sizeof(T) == 8) {
    p.v = (typename Pack<T>::Vector)_mm512_maskz_loadu_epi64(static_cast<__mmask8>((1u << count) - 1), from);
  } else {
    p.v = (typename Pack<T>::Vector)_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << count) - 1), from);
  }
  return p;
#else
  T lanes[Pack<T>::kSize] = {};
  for (int i = 0; i < count; ++i) lanes[i] = from[i];
  return Pack<T>::load(lanes);
#endif
}

template <class T>
CT_INLINE void store_first(T* to, Pack<T> p, int count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 8) {
    _mm512_mask_storeu_epi64(to, static_cast<__mmask8>((1u << count) - 1), (__m512i)p.v);
  } else {
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>((1u << count) - 1), (__m512i)p.v);
  }
#else
  for (int i = 0; i < count; ++i) to[i] = p.v[i];
#endif
}

// A mask as bools, one byte each.
template <class T>
CT_INLINE void store_first(bool* to, PackMask<T> m, int count) {
  for (int i = 0; i < count; ++i) to[i] = m.v[i] != 0;
}
template <class T>
CT_INLINE void store_all(bool* to, PackMask<T> m) {
#if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
  if constexpr (sizeof(T) == 4) {
    const __mmask16 bits = _mm512_movepi32_mask((__m512i)m.v);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_maskz_set1_epi8(bits, 1));
    return;
  }
#endif
  for (int i = 0; i < Pack<T>::kSize; ++i) to[i] = m.v[i] != 0;
}
template <class T>
CT_INLINE void store_all(T* to, Pack<T> p) {
  p.store(to);
}

}  // namespace ct::elementwise
