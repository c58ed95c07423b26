#pragma once

#include <algorithm>

#include <cotangent/core/simd/vector.h>

// Vectors wider than the machine's, as two halves. The compiler has such vectors too, but keeps them in memory and chooses
// between them lane by lane: on AVX2 a softmax in them takes ten times as long.

namespace ct::simd {

template <class T, int kBytes>
requires(kBytes > kVectorBytes) struct Mask<T, kBytes> {
  Mask<T, kBytes / 2> low, high;

  CT_INLINE friend Mask operator&(Mask a, Mask b) { return {a.low & b.low, a.high & b.high}; }
  CT_INLINE friend Mask operator|(Mask a, Mask b) { return {a.low | b.low, a.high | b.high}; }
  CT_INLINE friend Mask operator^(Mask a, Mask b) { return {a.low ^ b.low, a.high ^ b.high}; }
  CT_INLINE friend Mask operator!(Mask a) { return {!a.low, !a.high}; }
};

/// As the primary template; lanes are those of `low` and then those of `high`.
template <class T, int kBytes>
requires(kBytes > kVectorBytes) struct Vector<T, kBytes> {
  using Scalar = T;
  using Part = Vector<T, kBytes / 2>;
  using Mask = simd::Mask<T, kBytes>;
  static constexpr int kSize = 2 * Part::kSize;

  Part low, high;

  Vector() = default;
  CT_INLINE Vector(Part low, Part high) : low(low), high(high) {}
  template <class S>
  requires std::is_arithmetic_v<S> CT_INLINE Vector(S s) : low(s), high(s) {}

  struct First {
    typename Part::First low, high;
    std::int64_t split;  // where the high ones begin, or all end
  };
  static CT_INLINE First first(std::int64_t count) {
    constexpr std::int64_t half = Part::kSize;
    const std::int64_t split = std::min(count, half);
    return {Part::first(split), Part::first(count - split), split};
  }
  template <class S>
  static CT_INLINE Vector load(const S* from) {
    return {Part::load(from), Part::load(from + Part::kSize)};
  }
  template <class S>
  static CT_INLINE Vector load(const S* from, First n, Vector otherwise = T(0)) {
    return {Part::load(from, n.low, otherwise.low), Part::load(from + n.split, n.high, otherwise.high)};
  }
  template <class S>
  CT_INLINE void store(S* to) const {
    Part::store_two(low, high, to);
  }
  template <class S>
  CT_INLINE void store(S* to, First n) const {
    low.store(to, n.low);
    high.store(to + n.split, n.high);
  }
  template <class S>
  static CT_INLINE void store_two(Vector a, Vector b, S* to) {
    a.store(to);
    b.store(to + kSize);
  }
  template <class S>
  static CT_INLINE void load_pair(const S* from, Vector& a, Vector& b) {
    if constexpr (std::is_same_v<S, BFloat16>) {
      Part::load_pair(from, a.low, b.low);
      Part::load_pair(from + kSize, a.high, b.high);
    } else {
      a = load(from), b = load(from + kSize);
    }
  }
  template <class S>
  static CT_INLINE void store_pair(Vector a, Vector b, S* to) {
    if constexpr (std::is_same_v<S, BFloat16>) {
      Part::store_pair(a.low, b.low, to);
      Part::store_pair(a.high, b.high, to + kSize);
    } else {
      a.store(to), b.store(to + kSize);
    }
  }

  CT_INLINE friend Vector operator+(Vector a, Vector b) { return {a.low + b.low, a.high + b.high}; }
  CT_INLINE friend Vector operator-(Vector a, Vector b) { return {a.low - b.low, a.high - b.high}; }
  CT_INLINE friend Vector operator*(Vector a, Vector b) { return {a.low * b.low, a.high * b.high}; }
  CT_INLINE friend Vector operator/(Vector a, Vector b) { return {a.low / b.low, a.high / b.high}; }
  CT_INLINE friend Vector operator-(Vector a) { return {-a.low, -a.high}; }
  CT_INLINE Vector& operator+=(Vector b) { return *this = *this + b; }
  CT_INLINE Vector& operator*=(Vector b) { return *this = *this * b; }
  CT_INLINE friend Mask operator<(Vector a, Vector b) { return {a.low < b.low, a.high < b.high}; }
  CT_INLINE friend Mask operator<=(Vector a, Vector b) { return {a.low <= b.low, a.high <= b.high}; }
  CT_INLINE friend Mask operator>(Vector a, Vector b) { return {a.low > b.low, a.high > b.high}; }
  CT_INLINE friend Mask operator>=(Vector a, Vector b) { return {a.low >= b.low, a.high >= b.high}; }
  CT_INLINE friend Mask operator==(Vector a, Vector b) { return {a.low == b.low, a.high == b.high}; }
  CT_INLINE friend Mask operator!=(Vector a, Vector b) { return {a.low != b.low, a.high != b.high}; }
  CT_INLINE friend Vector where(Mask m, Vector a, Vector b) {
    return {where(m.low, a.low, b.low), where(m.high, a.high, b.high)};
  }
  CT_INLINE friend Vector fma(Vector a, Vector b, Vector c) {
    return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
  }
  template <class Combine>
  CT_INLINE T across(Combine combine) const {
    return combine(low, high).across(combine);
  }
};

/// 64 bytes on every machine, for results that the width is a part of.
template <class T>
using FixedVector = Vector<T, 64>;

// ---- A run of elements: pairs of vectors as far as they go, and then at most two more, the last one short. ----

/// Calls two(k) for every pair of vectors in [begin, end), k its first element; returns where they end.
template <class V, class Two>
CT_INLINE std::int64_t for_pairs(std::int64_t begin, std::int64_t end, const Two& two) {
  for (; begin + 2 * V::kSize <= end; begin += 2 * V::kSize) two(begin);
  return begin;
}
/// Calls one(k, first) for the vectors in [begin, end), of which V::load() and store() take `first` lanes.
template <class V, class One>
CT_INLINE void for_rest(std::int64_t begin, std::int64_t end, const One& one) {
  for (; begin < end; begin += V::kSize) one(begin, V::first(std::min<std::int64_t>(V::kSize, end - begin)));
}
/// Both.
template <class V, class Two, class One>
CT_INLINE void for_pairs(std::int64_t begin, std::int64_t end, const Two& two, const One& one) {
  for_rest<V>(for_pairs<V>(begin, end, two), end, one);
}

}  // namespace ct::simd
