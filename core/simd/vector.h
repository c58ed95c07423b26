#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <cotangent/core/base/dtype.h>
#include <cotangent/core/simd/fma.h>
#include <cotangent/core/simd/half.h>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Vector<T>: as many numbers as one vector register of this machine holds, with the operators of a number. A formula
// that is written once for a number type X serves the CPU with X = Vector<float> and the GPU with X = Lane<float>
// (engine/map/lane.cuh). FixedVector<T> (core/simd/wide.h) has 64 bytes on every machine.
//
// Elements are float, double and std::int64_t; vectors of other integers are for moving bits. Vectors of float are also
// loaded from and stored as 16-bit floats. By default the build
// compiles kernels for several levels of the processor (core/device/cpu_level.h), each with vectors of its own width.
//
// Everything is always inlined: a vector argument of a real call would depend on the target's ABI. Only load_first() and
// store_first() are real functions, of each width.

namespace ct::simd {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif
// How many of them there are: with AVX-512 and on 64-bit ARM 32.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int kVectorRegisters = 16;
#endif

namespace detail {

template <std::size_t size>
using UnsignedOf = std::conditional_t<
    size == 8, std::uint64_t,
    std::conditional_t<size == 4, std::uint32_t, std::conditional_t<size == 2, std::uint16_t, std::uint8_t>>>;
// The unsigned and the signed integer as wide as T. Comparisons give the latter, lane by lane 0 or -1.
template <class T>
using Unsigned = UnsignedOf<sizeof(T)>;
template <class T>
using Signed = std::make_signed_t<Unsigned<T>>;
// T itself, or the unsigned integer that wraps around where T must not overflow.
template <class T>
using Wrapping = std::conditional_t<std::is_floating_point_v<T>, T, Unsigned<T>>;

}  // namespace detail

/// An element type that is computed with as float.
template <class T>
inline constexpr bool is_16_bit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// A truth value per lane of a Vector<T, kBytes>.
template <class T, int kBytes = kVectorBytes>
struct Mask {
  using Raw = detail::Raw<detail::Signed<T>, kBytes>;
  static constexpr int kSize = kBytes / static_cast<int>(sizeof(T));
  using First = int;

  Raw v;

  static CT_INLINE First first(int count) { return count; }
  CT_INLINE friend Mask operator&(Mask a, Mask b) { return {a.v & b.v}; }
  CT_INLINE friend Mask operator|(Mask a, Mask b) { return {a.v | b.v}; }
  CT_INLINE friend Mask operator^(Mask a, Mask b) { return {a.v ^ b.v}; }
  CT_INLINE friend Mask operator!(Mask a) { return {~a.v}; }

  /// Whether it is true in some lane.
  CT_INLINE bool any() const {
#if defined(__AVX512F__)
    if constexpr (kBytes == 64) return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#endif
#if defined(__AVX2__)
    if constexpr (kBytes == 32) return _mm256_testz_si256((__m256i)v, (__m256i)v) == 0;
#endif
    bool some = false;
    for (int i = 0; i < kSize; ++i) some |= v[i] != 0;
    return some;
  }
  /// As bools, one byte each: all, or the first `count`.
  CT_INLINE void store(bool* to) const {
#if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
    if constexpr (sizeof(T) == 4 && kBytes == 64)
      return _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                              _mm_maskz_set1_epi8(_mm512_movepi32_mask((__m512i)v), 1));
#endif
    store(to, kSize);
  }
  CT_INLINE void store(bool* to, int count) const {
    for (int i = 0; i < count; ++i) to[i] = v[i] != 0;
  }
};

namespace detail {

// See keep().
template <class Raw>
CT_INLINE void keep_raw(Raw& x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__x86_64__)
  asm("" : "+x"(x));
#elif defined(__aarch64__)
  asm("" : "+w"(x));
#else
  (void)x;
#endif
}

}  // namespace detail

/// In the place of V::first(n): all lanes, which takes no mask.
struct All {};

namespace detail {

// The first n lanes of a vector, in the form that the machine's partial loads and stores want.
template <class T, int kBytes>
struct FirstLanes {
#if defined(__AVX512F__)
  static constexpr bool kMachine = kBytes == 64 && sizeof(T) >= 4;
  __mmask16 mask;
  CT_INLINE explicit FirstLanes(std::int64_t n) : mask(static_cast<__mmask16>((1u << n) - 1)), count(n) {}
#elif defined(__AVX2__)
  static constexpr bool kMachine = kBytes == 32 && sizeof(T) >= 4;
  Raw<Signed<T>, kBytes> mask;
  CT_INLINE explicit FirstLanes(std::int64_t n) : mask{}, count(n) {
    for (int i = 0; i < kBytes / static_cast<int>(sizeof(T)); ++i) mask[i] = i;
    mask = mask < static_cast<Signed<T>>(n);
  }
#else
  static constexpr bool kMachine = false;
  CT_INLINE explicit FirstLanes(std::int64_t n) : count(n) {}
#endif
  CT_INLINE FirstLanes(All) : FirstLanes(kBytes / static_cast<std::int64_t>(sizeof(T))) {}
  std::int64_t count;
};

}  // namespace detail

template <class T, int kBytes = kVectorBytes>
struct Vector {
  using Scalar = T;
  using Raw = detail::Raw<T, kBytes>;
  using Mask = simd::Mask<T, kBytes>;
  static constexpr int kSize = kBytes / static_cast<int>(sizeof(T));

  Raw v;

  Vector() = default;
  CT_INLINE Vector(Raw v) : v(v) {}
  /// The same number in every lane.
  template <class S>
  requires std::is_arithmetic_v<S> CT_INLINE Vector(S s) : v(static_cast<T>(s) - Raw{}) {}

  // ---- Loads and stores, of whole vectors and of the first lanes: the others read as 0 and are not written. ----

  using First = detail::FirstLanes<T, kBytes>;
  static CT_INLINE First first(std::int64_t count) { return First(count); }

  static CT_INLINE Vector load(const T* from) {
    return (Raw) * reinterpret_cast<const detail::RawInMemory<T, kBytes>*>(from);
  }
  CT_INLINE void store(T* to) const { *reinterpret_cast<detail::RawInMemory<T, kBytes>*>(to) = v; }

  static CT_INLINE Vector load(const T* from, First n, Vector otherwise = Raw{}) {
    if constexpr (First::kMachine) {
#if defined(__AVX512F__)
      if constexpr (sizeof(T) == 4)
        return (Raw)_mm512_mask_loadu_epi32((__m512i)otherwise.v, n.mask, from);
      else
        return (Raw)_mm512_mask_loadu_epi64((__m512i)otherwise.v, static_cast<__mmask8>(n.mask), from);
#elif defined(__AVX2__)
      __m256i x;
      if constexpr (sizeof(T) == 4)
        x = _mm256_maskload_epi32(reinterpret_cast<const int*>(from), (__m256i)n.mask);
      else
        x = _mm256_maskload_epi64(reinterpret_cast<const long long*>(from), (__m256i)n.mask);
      return n.mask ? (Raw)x : otherwise.v;
#endif
    } else {
      return load_first(from, n.count, otherwise);
    }
  }
  CT_INLINE void store(T* to, First n) const {
    if constexpr (First::kMachine) {
#if defined(__AVX512F__)
      if constexpr (sizeof(T) == 4)
        _mm512_mask_storeu_epi32(to, n.mask, (__m512i)v);
      else
        _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(n.mask), (__m512i)v);
#elif defined(__AVX2__)
      // In pieces: on a Zen 3 a masked store takes as long as five whole ones, these as two.
      char* at = reinterpret_cast<char*>(to);
      __m128i rest = _mm256_castsi256_si128((__m256i)v);
      const auto bytes = n.count * static_cast<std::int64_t>(sizeof(T));
      if (bytes & 32) return store(to);
      if (bytes & 16) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(at), rest);
        rest = _mm256_extracti128_si256((__m256i)v, 1), at += 16;
      }
      if (bytes & 8) {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(at), rest);
        rest = _mm_unpackhi_epi64(rest, rest), at += 8;
      }
      if (bytes & 4) _mm_storeu_si32(at, rest);
#endif
    } else {
      store_first(v, to, n.count);
    }
  }

  template <class S>
  static CT_INLINE Vector load(const S* from, All) {
    return load(from);
  }
  template <class S>
  CT_INLINE void store(S* to, All) const {
    store(to);
  }

  // The same for 16-bit floats: widened, or rounded to nearest even.
  using Bits16 = detail::Raw<std::uint16_t, kBytes / 2>;
  using Words = detail::Raw<std::uint32_t, kBytes>;

  template <class S>
  static CT_INLINE Vector widened(Bits16 bits) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<S, BFloat16> && kBytes == 64)  // the compiler would go by way of halves
      return (Raw)((Words)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)bits) << 16);
    else if constexpr (kBytes == 64)
      return (Raw)_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits);
#endif
    if constexpr (std::is_same_v<S, BFloat16>) return (Raw)(__builtin_convertvector(bits, Words) << 16);
#if defined(__F16C__) && defined(__AVX2__)
    else if constexpr (kBytes == 32)
      return (Raw)_mm256_cvtph_ps((__m128i)bits);
#endif
#if defined(__aarch64__)
    else if constexpr (kBytes == 16)
      return (Raw)vcvt_f32_f16((float16x4_t)bits);
#endif
    return detail::from_half<kBytes>(bits);
  }
  template <class S>
  CT_INLINE Bits16 narrowed() const {
    if constexpr (std::is_same_v<S, BFloat16>) return __builtin_convertvector(rounded() >> 16, Bits16);
#if defined(__AVX512F__)
    else if constexpr (kBytes == 64)
      return (Bits16)_mm512_maskz_cvtps_ph(0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT);
#endif
#if defined(__F16C__) && defined(__AVX2__)
    else if constexpr (kBytes == 32)
      return (Bits16)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#endif
#if defined(__aarch64__)
    else if constexpr (kBytes == 16)
      return (Bits16)vcvt_f16_f32((float32x4_t)v);
#endif
    return detail::to_half<kBytes>(v);
  }
  template <class S>
  requires is_16_bit<S>
  static CT_INLINE Vector load(const S* from) {
    return widened<S>((Bits16) *
                      reinterpret_cast<const detail::RawInMemory<std::uint16_t, kBytes / 2>*>(from));
  }
  template <class S>
  requires is_16_bit<S> CT_INLINE void store(S* to) const {
    *reinterpret_cast<detail::RawInMemory<std::uint16_t, kBytes / 2>*>(to) = narrowed<S>();
  }
  template <class S>
  requires is_16_bit<S>
  static CT_INLINE Vector load(const S* from, First n, Vector otherwise = Raw{}) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (kBytes == 64) {
      const Vector x = widened<S>((Bits16)_mm256_maskz_loadu_epi16(n.mask, from));
      return (Raw)_mm512_mask_mov_ps((__m512)otherwise.v, n.mask, (__m512)x.v);
    }
#endif
    return load_first(from, n.count, otherwise);
  }
  template <class S>
  requires is_16_bit<S> CT_INLINE void store(S* to, First n) const {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (kBytes == 64) return _mm256_mask_storeu_epi16(to, n.mask, (__m256i)narrowed<S>());
#endif
    store_first(v, to, n.count);
  }
  /// Stores a and then b: in 16 bits together they take less than one by one.
  template <class S>
  static CT_INLINE void store_two(Vector a, Vector b, S* to) {
    if constexpr (std::is_same_v<S, BFloat16>) {
      *reinterpret_cast<detail::RawInMemory<std::uint16_t, kBytes>*>(to) =
          upper_halves(a.rounded(), b.rounded(), std::make_integer_sequence<int, 2 * kSize>{});
    } else {
      a.store(to);
      b.store(to + kSize);
    }
  }
  /// The next 2 kSize elements, and back to where they came from: of bf16 every second one is in `a`, which costs least,
  /// of others the first half.
  template <class S>
  static CT_INLINE void load_pair(const S* from, Vector& a, Vector& b) {
    if constexpr (std::is_same_v<S, BFloat16>) {
      Words words = (Words) * reinterpret_cast<const detail::RawInMemory<std::uint16_t, kBytes>*>(from);
      detail::keep_raw(words);
      a = (Raw)(words << 16), b = (Raw)(words & 0xffff0000u);
    } else {
      a = load(from), b = load(from + kSize);
    }
  }
  template <class S>
  static CT_INLINE void store_pair(Vector a, Vector b, S* to) {
    if constexpr (std::is_same_v<S, BFloat16>) {
      *reinterpret_cast<detail::RawInMemory<std::uint16_t, kBytes>*>(to) =
          (detail::Raw<std::uint16_t, kBytes>)(a.rounded() >> 16 | (b.rounded() & 0xffff0000u));
    } else {
      a.store(to), b.store(to + kSize);
    }
  }

  // ---- Arithmetic. Integers wrap around: their sums and products are those of the unsigned numbers. ----

  using Wrapping = detail::Raw<detail::Wrapping<T>, kBytes>;
  CT_INLINE friend Vector operator+(Vector a, Vector b) { return (Raw)((Wrapping)a.v + (Wrapping)b.v); }
  CT_INLINE friend Vector operator-(Vector a, Vector b) { return (Raw)((Wrapping)a.v - (Wrapping)b.v); }
  CT_INLINE friend Vector operator*(Vector a, Vector b) { return (Raw)((Wrapping)a.v * (Wrapping)b.v); }
  CT_INLINE friend Vector operator/(Vector a, Vector b) { return a.v / b.v; }
  CT_INLINE friend Vector operator-(Vector a) { return (Raw)(-(Wrapping)a.v); }
  CT_INLINE Vector& operator+=(Vector b) { return *this = *this + b; }
  CT_INLINE Vector& operator*=(Vector b) { return *this = *this * b; }
  CT_INLINE friend Mask operator<(Vector a, Vector b) { return {a.v < b.v}; }
  CT_INLINE friend Mask operator<=(Vector a, Vector b) { return {a.v <= b.v}; }
  CT_INLINE friend Mask operator>(Vector a, Vector b) { return {a.v > b.v}; }
  CT_INLINE friend Mask operator>=(Vector a, Vector b) { return {a.v >= b.v}; }
  CT_INLINE friend Mask operator==(Vector a, Vector b) { return {a.v == b.v}; }
  CT_INLINE friend Mask operator!=(Vector a, Vector b) { return {a.v != b.v}; }
  /// a where m holds, else b. Both are computed; the other one's NaN does not leak.
  CT_INLINE friend Vector where(Mask m, Vector a, Vector b) { return m.v ? a.v : b.v; }
  /// a * b + c, rounded once where the machine can.
  CT_INLINE friend Vector fma(Vector a, Vector b, Vector c) {
    return detail::fused<T, kBytes>(a.v, b.v, c.v);
  }

  // The bits of every lane as integers and back, for polynomials.
  using Bits = detail::Raw<detail::Signed<T>, kBytes>;
  CT_INLINE Bits bits() const { return (Bits)v; }
  static CT_INLINE Vector from_bits(Bits b) { return (Raw)b; }
  // bits() - b, wrapping around.
  CT_INLINE Bits bits_less(detail::Signed<T> b) const {
    return (Bits)((detail::Raw<detail::Unsigned<T>, kBytes>)v - static_cast<detail::Unsigned<T>>(b));
  }

  /// All lanes combined, always in the same order.
  template <class Combine>
  CT_INLINE T across(Combine combine) const {
    return halved<kSize / 2>(*this, combine).v[0];
  }

 private:
  // Loads and stores without an instruction of their own. Real calls: inlined, they would be most of the code of kernels.
  template <class S>
  [[gnu::noinline]] static Vector load_first(const S* from, std::int64_t count, Vector otherwise) {
    if constexpr (is_16_bit<S>) {
      Bits16 bits{};
      for (int i = 0; i < count; ++i) bits[i] = from[i].bits;
      Vector x = widened<S>(bits);
      for (int i = static_cast<int>(count); i < kSize; ++i) x.v[i] = otherwise.v[i];
      return x;
    } else {
      T lanes[kSize];
      otherwise.store(lanes);
      for (int i = 0; i < count; ++i) lanes[i] = from[i];
      return load(lanes);
    }
  }
  template <class S>
  [[gnu::noinline]] static void store_first(Vector x, S* to, std::int64_t count) {
    if constexpr (is_16_bit<S>) {
      const Bits16 bits = x.template narrowed<S>();
      for (int i = 0; i < count; ++i) to[i].bits = bits[i];
    } else {
      for (int i = 0; i < count; ++i) to[i] = x.v[i];
    }
  }

  // Floats whose upper 16 bits are those of the nearest bf16, ties to even; a NaN stays one.
  CT_INLINE Words rounded() const {
    const Words word = (Words)v;
    return v != v ? word | 0x400000u : word + 0x7fffu + (word >> 16 & 1u);
  }
  template <int... i>
  static CT_INLINE auto upper_halves(Words a, Words b, std::integer_sequence<int, i...>) {
    using Halves = detail::Raw<std::uint16_t, kBytes>;
    return __builtin_shufflevector((Halves)a, (Halves)b, (2 * i + 1)...);
  }
  template <int by, class Combine>
  static CT_INLINE Vector halved(Vector x, Combine combine) {
    x = combine(x, rotated<by>(x, std::make_integer_sequence<int, kSize>{}));
    if constexpr (by > 1) return halved<by / 2>(x, combine);
    return x;
  }
  template <int by, int... i>
  static CT_INLINE Vector rotated(Vector x, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(x.v, x.v, ((i + by) % kSize)...);
  }
};

/// Keeps a vector in a register. The compiler would rather load it again with every multiply-add, and loads
/// are what there are too many of.
template <class V>
CT_INLINE void keep(V& x) {
  detail::keep_raw(x.v);
}

/// The scalar `where`, for what is written for numbers and vectors alike.
template <class T>
requires std::is_arithmetic_v<T> CT_INLINE T where(bool m, T a, T b) { return m ? a : b; }

// ---- Runs: for loops that work on f32 block by block. ----

/// to[i] = from[i] of n elements; rounds to nearest even on the way to 16 bits. One side is float, the other 16-bit.
/// A real function, and one for each width: linkers take one of equal functions that were compiled for different machines.
template <class From, class To, int kBytes = kVectorBytes>
inline void convert_run(const From* __restrict from, std::int64_t n, To* __restrict to) {
  using V = Vector<float, kBytes>;
  std::int64_t i = 0;
  for (; i + 2 * V::kSize <= n; i += 2 * V::kSize)
    V::store_two(V::load(from + i), V::load(from + i + V::kSize), to + i);
  for (; i + V::kSize <= n; i += V::kSize) V::load(from + i).store(to + i);
  if (i < n) V::load(from + i, V::first(n - i)).store(to + i, V::first(n - i));
}

}  // namespace ct::simd
