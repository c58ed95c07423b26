#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/shuffle.h>
#include <cotangent/ops/engine/gemm/tiles_cpu.h>

// Copies of parts of the operands, in the order in which the kernels read them (engine/gemm/tiles_cpu.h), converted
// to the type that sums are made of.

namespace ct::gemm {

// The rows of a task are cut into tiles of nearly equal height: 64 rows are 4 tiles of 11 and 2 of 10, rather
// than 5 of 12 and one of 4.
struct RowTiles {
  std::int64_t count, low, taller;  // the first `taller` tiles have low + 1 rows, the others low
  RowTiles(std::int64_t rows, std::int64_t largest)
      : count(chunk_count(rows, largest)), low(rows / count), taller(rows % count) {}
  std::int64_t begin(std::int64_t t) const { return t * low + std::min(t, taller); }
  std::int64_t height(std::int64_t t) const { return low + (t < taller); }
};

// Rows of R, times alpha, each contiguous: out[i * ld + p].
template <class In, class T>
void pack_rows(const void* r, std::int64_t r_row, std::int64_t r_k, std::int64_t rows, std::int64_t k,
               T alpha, T* out, std::int64_t ld) {
  using V = simd::Vector<T>;
  constexpr std::int64_t w = V::kSize, line = std::max<std::int64_t>(w, 64 / sizeof(In));
  const V factor(alpha);
  for (std::int64_t i = 0; i < rows; ++i) {
    const In* from = static_cast<const In*>(r) + i * r_row;
    T* to = out + i * ld;
    std::int64_t p = 0;
    if (r_k == 1) {
      // Short pieces far apart are not foreseen by the machine: ask for the row after the next.
      const In* ahead = i + 2 < rows ? from + 2 * r_row : from;
      for (; p + line <= k; p += line) {
        __builtin_prefetch(ahead + p);
        for (std::int64_t l = p; l < p + line; l += w) (factor * V::load(from + l)).store(to + l);
      }
    }
    for (; p < k; p += w) {
      const std::int64_t n = std::min(w, k - p);
      (factor * simd::load_apart<V>(from + p * r_k, r_k, n)).store(to + p, V::first(n));
    }
  }
}

// Tiles of R, whose rows are neighbours in memory (r_row is 1), times alpha: out[t * tile_size + p * kRows + i]. Tiles of
// neighbours share cache lines: a few of these are read by all tiles before others come. Stores whole vectors
// even at a tile's end: the excess is overwritten by the next p, and the last p has padding behind it.
template <class In, class T>
void pack_columns(const void* r, std::int64_t, std::int64_t r_k, const RowTiles& tiles, std::int64_t k,
                  T alpha, T* out, std::int64_t tile_size) {
  using V = simd::Vector<T>;
  constexpr std::int64_t w = V::kSize;
  // A page apart they share the places of one set of the first level, mostly eight: half of them for what is asked for ahead.
  const std::int64_t deep = r_k * static_cast<std::int64_t>(sizeof(In)) % 4096 == 0 ? 4 : 8;
  const std::int64_t rows = tiles.begin(tiles.count);
  const V factor(alpha);
  for (std::int64_t p0 = 0; p0 < k; p0 += deep) {
    const std::int64_t end = std::min(p0 + deep, k);
    for (std::int64_t t = 0; t < tiles.count; ++t) {
      const std::int64_t h = tiles.height(t), begin = tiles.begin(t), rest = h % w;
      const In* from = static_cast<const In*>(r) + p0 * r_k + begin;
      T* to = out + t * tile_size + p0 * kRows;
      const std::int64_t ahead = end + deep <= k ? deep * r_k : 0;
      const auto run = [&](auto some) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (std::int64_t p = p0; p < end; ++p, from += r_k, to += kRows) {
          __builtin_prefetch(from + ahead);
          if constexpr (w <= kRows)
            for (std::int64_t i = 0; i + w <= h; i += w) (factor * V::load(from + i)).store(to + i);
          if (w > kRows || rest > 0) (factor * V::load(from + h - rest, some)).store(to + h - rest, some);
        }
      };
      begin + h - rest + w <= rows ? run(simd::All{}) : run(V::first(rest));
    }
  }
}

// out[p * ld + j] = element (j, p), by way of T: a transposition, in registers where whole blocks fit. load(j, p, first) is
// a vector from that element on, along p.
template <class T, class Out, class Load>
void pack_transposed(std::int64_t k, std::int64_t cols, Out* out, std::int64_t ld, Load load) {
  using V = simd::Vector<T>;
  constexpr std::int64_t w = V::kSize;
  for (std::int64_t j = 0; j < cols; j += w) {
    const std::int64_t wide = std::min(w, cols - j);
    for (std::int64_t p = 0; p < k; p += w) {
      const std::int64_t deep = std::min(w, k - p);
      const auto block_of = [&](std::int64_t wide, std::int64_t deep, auto row, auto column)
          __attribute__((always_inline)) {
        V block[w];
        for (std::int64_t l = 0; l < w; ++l) block[l] = l < wide ? load(j + l, p, row) : V(T(0));
        simd::transpose(block);
        for (std::int64_t l = 0; l < w; ++l)
          if (l < deep) block[l].store(out + (p + l) * ld + j, column);
      };
      if (wide == w && deep == w)
        block_of(w, w, simd::All{}, simd::All{});
      else
        block_of(wide, deep, V::first(deep), V::first(wide));
    }
  }
}

// The same of what lies in memory: element (j, p) is v[j * v_col + p].
template <class T, class In, class Out>
void pack_transposed(const In* v, std::int64_t v_col, std::int64_t k, std::int64_t cols, Out* out,
                     std::int64_t ld) {
  pack_transposed<T>(
      k, cols, out, ld, [=](std::int64_t j, std::int64_t p, auto first) __attribute__((always_inline)) {
        return simd::Vector<T>::load(v + j * v_col + p, first);
      });
}

// V in slivers of two vectors of columns, one after the other: within one, out[p * sliver + j].
template <class In, class T>
void pack_vectors(const void* operand, std::int64_t v_k, std::int64_t v_col, std::int64_t k,
                  std::int64_t cols, T* out) {
  using V = simd::Vector<T>;
  constexpr std::int64_t w = V::kSize, sliver = 2 * w;
  const In* const v = static_cast<const In*>(operand);
  if (v_k == 1 && v_col != 1) {
    for (std::int64_t j = 0; j < cols; j += sliver)
      pack_transposed<T>(v + j * v_col, v_col, k, std::min(sliver, cols - j), out + j * k, sliver);
    return;
  }
  for (std::int64_t p = 0; p < k; ++p) {
    const std::int64_t ahead = p + 4 < k ? 4 * v_k : 0;
    for (std::int64_t j = 0; j < cols; j += sliver) {
      const In* from = v + p * v_k + j * v_col;
      __builtin_prefetch(from + ahead);
      __builtin_prefetch(from + ahead + (cols - j < sliver ? 0 : sliver - 1) * v_col);
      T* to = out + j * k + p * sliver;
      const std::int64_t wide = std::min(sliver, cols - j);
      if (v_col == 1 && wide == sliver) {
        V::load(from).store(to), V::load(from + w).store(to + w);
      } else {
        for (std::int64_t l = 0; l < wide; l += w) {
          const std::int64_t n = std::min(w, wide - l);
          simd::load_apart<V>(from + l * v_col, v_col, n).store(to + l, V::first(n));
        }
      }
    }
  }
}

}  // namespace ct::gemm
