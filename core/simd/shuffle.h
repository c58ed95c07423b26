#pragma once

#include <cstddef>
#include <utility>

#include <cotangent/core/simd/vector.h>

// Exchanges between vectors, for products and transposes.

namespace ct::simd {

// Shuffles of two vectors a and b, each seen as 16-byte blocks, in the forms that cost one instruction each.
// `Hi` chooses the second half of what there is to choose.

// Within every block: groups of G elements of the lower (upper) half of a's block and of b's, in turn.
template <int G, bool Hi, class V, std::size_t... L>
CT_INLINE V interleave(V a, V b, std::index_sequence<L...>) {
  constexpr int w = static_cast<int>(sizeof...(L)), e = w / static_cast<int>(sizeof(V) / 16);
  return __builtin_shufflevector(
      a.v, b.v,
      (static_cast<int>(L) / e * e + static_cast<int>(L) % e / (2 * G) * G + static_cast<int>(L) % G +
       (Hi ? e / 2 : 0) + (static_cast<int>(L) % e / G % 2 == 0 ? 0 : w))...);
}

// The lower (upper) half of a, then that of b.
template <bool Hi, class V, std::size_t... L>
CT_INLINE V halves(V a, V b, std::index_sequence<L...>) {
  constexpr int w = static_cast<int>(sizeof...(L));
  return __builtin_shufflevector(
      a.v, b.v,
      (static_cast<int>(L) % (w / 2) + (Hi ? w / 2 : 0) + (static_cast<int>(L) < w / 2 ? 0 : w))...);
}

// The even (odd) blocks of a, then those of b.
template <bool Hi, class V, std::size_t... L>
CT_INLINE V alternate(V a, V b, std::index_sequence<L...>) {
  constexpr int w = static_cast<int>(sizeof...(L)), e = w / static_cast<int>(sizeof(V) / 16);
  return __builtin_shufflevector(a.v, b.v,
                                 (static_cast<int>(L) % (w / 2) / e * 2 * e + static_cast<int>(L) % e +
                                  (Hi ? e : 0) + (static_cast<int>(L) < w / 2 ? 0 : w))...);
}

// Every second element of a and then of b, from the first (second) one on.
template <bool Hi, class V, std::size_t... L>
CT_INLINE V every_second(V a, V b, std::index_sequence<L...>) {
  return __builtin_shufflevector(a.v, b.v, (2 * static_cast<int>(L) + (Hi ? 1 : 0))...);
}

// The elements of the lower (upper) half of a and those of b in turn.
template <bool Hi, class V, std::size_t... L>
CT_INLINE V zip(V a, V b, std::index_sequence<L...>) {
  constexpr int w = static_cast<int>(sizeof...(L));
  return __builtin_shufflevector(
      a.v, b.v, (static_cast<int>(L) / 2 + (Hi ? w / 2 : 0) + (static_cast<int>(L) % 2 == 0 ? 0 : w))...);
}

/// The n <= kSize elements from `from` on at some stride; the lanes after them are 0.
template <class V, class In>
CT_INLINE V load_apart(const In* from, std::int64_t stride, std::int64_t n) {
  constexpr std::int64_t w = V::kSize;
  if (stride == 1) return n == w ? V::load(from) : V::load(from, V::first(n));
  if (stride == 2) {
    const std::int64_t all = 2 * n - 1;
    const V low = V::load(from, V::first(all < w ? all : w)),
            high = all > w ? V::load(from + w, V::first(all - w)) : V(0);
    return every_second<false>(low, high, std::make_index_sequence<V::kSize>{});
  }
  In lanes[V::kSize] = {};
  for (std::int64_t l = 0; l < n; ++l) lanes[l] = from[l * stride];
  return V::load(lanes);
}

/// Transposes a square block held in registers: first within 16 bytes, then those as wholes.
template <class V, std::size_t W>
CT_INLINE void transpose(V (&rows)[W]) {
  constexpr std::size_t blocks = sizeof(V) / 16, e = W / blocks;
  constexpr auto lanes = std::make_index_sequence<W>{};
#pragma GCC unroll 16
  for (std::size_t g = 0; g < W; g += e) {
    const V a = rows[g], b = rows[g + 1];
    if constexpr (e == 2) {
      rows[g] = interleave<1, false>(a, b, lanes), rows[g + 1] = interleave<1, true>(a, b, lanes);
    } else {
      const V c = rows[g + 2], d = rows[g + 3];
      const V ab = interleave<1, false>(a, b, lanes), ab2 = interleave<1, true>(a, b, lanes);
      const V cd = interleave<1, false>(c, d, lanes), cd2 = interleave<1, true>(c, d, lanes);
      rows[g] = interleave<2, false>(ab, cd, lanes), rows[g + 1] = interleave<2, true>(ab, cd, lanes);
      rows[g + 2] = interleave<2, false>(ab2, cd2, lanes), rows[g + 3] = interleave<2, true>(ab2, cd2, lanes);
    }
  }
  if constexpr (blocks == 2) {
#pragma GCC unroll 16
    for (std::size_t c = 0; c < e; ++c) {
      const V x = rows[c], y = rows[e + c];
      rows[c] = halves<false>(x, y, lanes), rows[e + c] = halves<true>(x, y, lanes);
    }
  } else if constexpr (blocks == 4) {
#pragma GCC unroll 16
    for (std::size_t c = 0; c < e; ++c) {
      const V x01 = halves<false>(rows[c], rows[e + c], lanes),
              x23 = halves<true>(rows[c], rows[e + c], lanes);
      const V y01 = halves<false>(rows[2 * e + c], rows[3 * e + c], lanes);
      const V y23 = halves<true>(rows[2 * e + c], rows[3 * e + c], lanes);
      rows[c] = alternate<false>(x01, y01, lanes), rows[e + c] = alternate<true>(x01, y01, lanes);
      rows[2 * e + c] = alternate<false>(x23, y23, lanes), rows[3 * e + c] = alternate<true>(x23, y23, lanes);
    }
  }
}

/// Adds up the lanes of W vectors at once: lane l of the result is the sum of rows[l], in pairs.
template <class V, std::size_t W>
CT_INLINE V lane_sums(V (&rows)[W]) {
  constexpr std::size_t blocks = sizeof(V) / 16, e = W / blocks;
  constexpr auto lanes = std::make_index_sequence<W>{};
#pragma GCC unroll 16
  for (std::size_t g = 0; g < W; g += 2)
    rows[g] =
        interleave<1, false>(rows[g], rows[g + 1], lanes) + interleave<1, true>(rows[g], rows[g + 1], lanes);
  if constexpr (e == 4) {
#pragma GCC unroll 16
    for (std::size_t g = 0; g < W; g += 4)
      rows[g] = interleave<2, false>(rows[g], rows[g + 2], lanes) +
                interleave<2, true>(rows[g], rows[g + 2], lanes);
  }
  if constexpr (blocks > 1) {
#pragma GCC unroll 16
    for (std::size_t g = 0; g < W; g += 2 * e)
      rows[g] = halves<false>(rows[g], rows[g + e], lanes) + halves<true>(rows[g], rows[g + e], lanes);
  }
  if constexpr (blocks > 2)
    rows[0] = alternate<false>(rows[0], rows[W / 2], lanes) + alternate<true>(rows[0], rows[W / 2], lanes);
  return rows[0];
}

}  // namespace ct::simd
