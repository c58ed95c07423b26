#pragma once

#include <algorithm>
#include <cstdint>

#include <cotangent/core/simd/vector.h>

// The innermost loops. Names: the product is seen as C[i, j] = start[i, j] + sum over p of R[i, p] * V[p, j],
// where the elements of R (rows) are broadcast and those of V (vectors) are contiguous along j. Whether R is
// the left or the right operand is decided outside.
//
// Every element of C is one chain of multiply-adds over p = 0, 1, ... in that order, begun from the start
// value. The bits therefore depend neither on how C is cut into tiles, nor on where k is cut into blocks, nor
// on the number of threads.

namespace ct::gemm {

/// The most rows of a tile: as many as there are registers for, with two vectors each.
inline constexpr int kRows = simd::kVectorRegisters == 32 ? 12 : simd::kVectorBytes == 32 ? 6 : 4;

/// By columns, neighbours along k may lie pages apart, which the machine does not foresee: so many are asked for ahead. More
/// would drive one another out of the first-level cache, where such addresses share a few places.
inline constexpr std::int64_t kColumnsAhead = 16;

template <class T>
struct TileArgs {
  std::int64_t k;
  const T* r;  // element (i, p): r[i * r_stride + p] (by rows) or r[p * r_stride + i] (by columns)
  std::int64_t r_stride;
  const T* v;  // element (p, j): v[p * v_stride + j]
  std::int64_t v_stride;
  const T* start;  // element (i, j): start[i * start_stride + j], may be c itself; null: 0
  std::int64_t start_stride;
  T* c;  // element (i, j): c[i * c_stride + j]
  std::int64_t c_stride;
  const T* next_v;  // prefetching: that many lines from here, for every row of the tile
  std::int64_t next_v_lines;
  std::int64_t rows;  // of the tile
  std::int64_t cols;  // (vectors - 1) * width < cols <= vectors * width
};

// a * b + c. With Pairs, a and b are pairs of bf16 that follow each other along p, and both products are added, the upper
// halves' first, each rounded as by fma; denormals count as 0. (asm, because an intrinsic would have to be inlined into
// functions that are all compiled for that instruction; these run at levels with and without it.)
template <bool Pairs, class V>
CT_INLINE V multiply_add(V a, V b, V c) {
  if constexpr (!Pairs) return fma(a, b, c);
  asm("vdpbf16ps %2, %1, %0" : "+v"(c.v) : "v"(a.v), "v"(b.v));
  return c;
}

// A tile of Rows rows and Vecs vectors of columns, all of it in registers. With Prefetch, the next tile of C and a share of
// the next vectors are prefetched, a little with each Rows-th part of the loop: all at once they would delay the loads that
// are needed now. (Columns of R too, but with vectors of less than a line, where those that are far apart have been packed.)
// Whole: the last vector of columns is a whole one; a load of some lanes takes a turn of a multiply-add unit.
template <class T, int Rows, int Vecs, bool ByRows, bool Prefetch, bool Pairs, bool Whole>
CT_INLINE void tile_of(const TileArgs<T>& t) {
  using V = simd::Vector<T>;
  constexpr int w = V::kSize;
  const auto last = V::first(Whole ? w : t.cols - (Vecs - 1) * w);
  const auto load = [&](const T* from, int j) {
    return Whole || j < Vecs - 1 ? V::load(from + j * w) : V::load(from + j * w, last);
  };
  V acc[Rows][Vecs];
  if (t.start == nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < Vecs; ++j) acc[i][j] = V(T(0));
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < Vecs; ++j) acc[i][j] = load(t.start + i * t.start_stride, j);
  }
  const std::int64_t k = t.k, rs = t.r_stride, vs = t.v_stride;
  const T* v = t.v;
  // By rows, element (i, p) is reached as base i / 3 plus index i % 3: four registers that stand and three
  // that move, where twelve pointers would not fit.
  const T* const base0 = t.r;
  const T* const base1 = base0 + 3 * rs;
  const T* const base2 = base1 + 3 * rs;
  const T* const base3 = base2 + 3 * rs;
  const auto base = [&](int i) { return i < 3 ? base0 : i < 6 ? base1 : i < 9 ? base2 : base3; };
  const T* r = t.r;
  std::int64_t at0 = 0, at1 = rs, at2 = 2 * rs;
  const auto step = [&](auto ask) __attribute__((always_inline)) {
    if constexpr (ask)
      for (const int i : {0, Rows - 1}) __builtin_prefetch(r + kColumnsAhead * rs + i);
    V b[Vecs];
#pragma GCC unroll 8
    for (int j = 0; j < Vecs; ++j) b[j] = load(v, j);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const V a = V(ByRows ? base(i)[i % 3 == 0 ? at0 : i % 3 == 1 ? at1 : at2] : r[i]);
#pragma GCC unroll 8
      for (int j = 0; j < Vecs; ++j) acc[i][j] = multiply_add<Pairs>(a, b[j], acc[i][j]);
    }
    v += vs;
    if constexpr (ByRows) {
      ++at0, ++at1, ++at2;
    } else {
      r += rs;
    }
  };
  std::int64_t p = 0;
  if constexpr (Prefetch) {
    const std::int64_t part = k / Rows;
    constexpr std::bool_constant<(!ByRows && sizeof(V) == 64)> ask;
    const T* next_c = t.c + Rows * t.c_stride;
    const T* next_v = t.next_v;
    const std::int64_t lines = t.next_v_lines;
    for (int i = 0; i < Rows; ++i) {
      __builtin_prefetch(next_c, 1);
      __builtin_prefetch(next_c + Vecs * w - 1, 1);
      next_c += t.c_stride;
      for (std::int64_t line = 0; line < lines; ++line) {
        __builtin_prefetch(next_v, 0, 2);
        next_v += 64 / sizeof(T);
      }
      for (std::int64_t end = p + part; p < end; ++p) step(ask);
    }
  }
  if constexpr (!ByRows && Rows > 3)
    if (rs != kRows)  // packed columns are foreseen
      for (; p < k - kColumnsAhead; ++p) step(std::true_type{});
  for (; p < k; ++p) step(std::false_type{});
  T* const c = t.c;  // a copy: for all the compiler knows, stores might change t
  const std::int64_t c_stride = t.c_stride;
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
    T* to = c + i * c_stride;
#pragma GCC unroll 8
    for (int j = 0; j < Vecs - 1; ++j) acc[i][j].store(to + j * w);
    to += (Vecs - 1) * w;
    Whole ? acc[i][Vecs - 1].store(to) : acc[i][Vecs - 1].store(to, last);
  }
}

template <class T, int Rows, int Vecs, bool ByRows, bool Prefetch, bool Pairs = false>
void tile(const TileArgs<T>& t) {
  t.cols == Vecs* simd::Vector<T>::kSize ? tile_of<T, Rows, Vecs, ByRows, Prefetch, Pairs, true>(t)
                                         : tile_of<T, Rows, Vecs, ByRows, Prefetch, Pairs, false>(t);
}

template <class T>
using TileKernel = void (*)(const TileArgs<T>&);

template <class T, int Vecs, bool ByRows, bool Pairs = false, std::size_t... I>
constexpr auto tile_row(std::index_sequence<I...>) {
  return std::array<TileKernel<T>, sizeof...(I)>{
      &tile<T, static_cast<int>(I) + 1, Vecs, ByRows, false, Pairs>...};
}

/// The kernel for a tile of `rows` rows, 1 to kRows, and `vecs` vectors: 1 or 2; up to 3 rows also 4,
/// and one row also 8, without which there would be too few sums to work on at once. Only the largest tiles
/// prefetch.
template <class T>
TileKernel<T> tile_kernel(std::int64_t rows, int vecs, bool by_rows, bool prefetch) {
  constexpr int most = kRows;
  using Counts = std::make_index_sequence<most>;
  static constexpr std::array<TileKernel<T>, most> table[2][2] = {
      {tile_row<T, 1, false>(Counts{}), tile_row<T, 2, false>(Counts{})},
      {tile_row<T, 1, true>(Counts{}), tile_row<T, 2, true>(Counts{})}};
  static constexpr TileKernel<T> large[2][2] = {
      {&tile<T, most - 1, 2, false, true>, &tile<T, most, 2, false, true>},
      {&tile<T, most - 1, 2, true, true>, &tile<T, most, 2, true, true>}};
  static constexpr TileKernel<T> wide[2][3] = {
      {&tile<T, 1, 4, false, false>, &tile<T, 2, 4, false, false>, &tile<T, 3, 4, false, false>},
      {&tile<T, 1, 4, true, false>, &tile<T, 2, 4, true, false>, &tile<T, 3, 4, true, false>}};
  if (vecs == 8) return by_rows ? &tile<T, 1, 8, true, false> : &tile<T, 1, 8, false, false>;
  if (vecs == 4) return wide[by_rows][rows - 1];
  if (prefetch && vecs == 2 && rows >= most - 1) return large[by_rows][rows - (most - 1)];
  return table[by_rows][vecs - 1][static_cast<std::size_t>(rows - 1)];
}
// Their tables, and so all tiles, are made in gemm_cpu.cpp alone: compiling them takes seconds.
extern template TileKernel<float> tile_kernel<float>(std::int64_t, int, bool, bool);
extern template TileKernel<double> tile_kernel<double>(std::int64_t, int, bool, bool);

}  // namespace ct::gemm
