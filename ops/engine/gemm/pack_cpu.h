#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/parallel.h>
#include <cotangent/ops/engine/gemm/simd_cpu.h>

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
void pack_rows(const In* r, std::int64_t r_row, std::int64_t r_k, std::int64_t rows, std::int64_t k, T alpha,
               T* out, std::int64_t ld) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const In* from = r + i * r_row;
    T* to = out + i * ld;
    if (r_k == 1) {
      // Short pieces far apart are not foreseen by the machine: ask for the row after the next.
      const In* ahead = i + 2 < rows ? from + 2 * r_row : from;
      constexpr std::int64_t line = 64 / sizeof(In);
      std::int64_t p = 0;
      for (; p + line <= k; p += line) {
        __builtin_prefetch(ahead + p);
        for (std::int64_t l = 0; l < line; ++l) to[p + l] = alpha * static_cast<T>(from[p + l]);
      }
      for (; p < k; ++p) to[p] = alpha * static_cast<T>(from[p]);
    } else {
      for (std::int64_t p = 0; p < k; ++p) to[p] = alpha * static_cast<T>(from[p * r_k]);
    }
  }
}

// Tiles of R, whose rows are neighbours in memory, times alpha: out[t * tile_size + p * kRows + i].
template <class In, class T>
void pack_columns(const In* r, std::int64_t r_k, const RowTiles& tiles, std::int64_t k, T alpha, T* out,
                  std::int64_t tile_size) {
  using S = Simd<T>;
  constexpr std::int64_t w = S::kWidth;
  [[maybe_unused]] const auto factor = S::splat(alpha);
  for (std::int64_t p = 0; p < k; ++p) {
    const In* from = r + p * r_k;
    const std::int64_t ahead = p + 8 < k ? 8 * r_k : 0;
    T* to = out + p * S::kRows;
    for (std::int64_t t = 0; t < tiles.count; ++t) {
      const std::int64_t h = tiles.height(t);
      __builtin_prefetch(from + ahead);
      if constexpr (std::is_same_v<In, T>) {
        for (std::int64_t i = 0; i < h; i += w) {
          const auto mask = S::mask(std::min(w, h - i));
          S::store(to + i, S::mul(factor, S::load(from + i, mask)), mask);
        }
      } else {
        for (std::int64_t i = 0; i < h; ++i) to[i] = alpha * static_cast<T>(from[i]);
      }
      from += h;
      to += tile_size;
    }
  }
}

// out[p * ld + j] = v[j * v_col + p]: a transposition, in registers where whole blocks fit.
template <class T>
void pack_transposed(const T* v, std::int64_t v_col, std::int64_t k, std::int64_t cols, T* out,
                     std::int64_t ld) {
  using S = Simd<T>;
  constexpr std::int64_t w = S::kWidth;
  for (std::int64_t j = 0; j < cols; j += w) {
    const std::int64_t wide = std::min(w, cols - j);
    for (std::int64_t p = 0; p < k; p += w) {
      const std::int64_t deep = std::min(w, k - p);
      const auto mask = S::mask(deep);
      typename S::V block[w];
      for (std::int64_t l = 0; l < w; ++l)
        block[l] = l < wide ? S::load(v + (j + l) * v_col + p, mask) : S::zero();
      transpose(block);
      const auto column_mask = S::mask(wide);
      for (std::int64_t l = 0; l < w; ++l)
        if (l < deep) S::store(out + (p + l) * ld + j, block[l], column_mask);
    }
  }
}

// V in slivers of `sliver` columns, one after the other: within one, out[p * sliver + j].
template <class In, class T>
void pack_vectors(const In* v, std::int64_t v_k, std::int64_t v_col, std::int64_t k, std::int64_t cols,
                  T* out, std::int64_t sliver) {
  if constexpr (std::is_same_v<In, T>) {
    if (v_k == 1 && v_col != 1) {
      for (std::int64_t j = 0; j < cols; j += sliver)
        pack_transposed(v + j * v_col, v_col, k, std::min(sliver, cols - j), out + j * k, sliver);
      return;
    }
  }
  for (std::int64_t p = 0; p < k; ++p) {
    const std::int64_t ahead = p + 4 < k ? 4 * v_k : 0;
    for (std::int64_t j = 0; j < cols; j += sliver) {
      const In* from = v + p * v_k + j * v_col;
      __builtin_prefetch(from + ahead);
      __builtin_prefetch(from + ahead + (cols - j < sliver ? 0 : sliver - 1) * v_col);
      T* to = out + j * k + p * sliver;
      const std::int64_t wide = std::min(sliver, cols - j);
      if (v_col != 1) {
        for (std::int64_t l = 0; l < wide; ++l) to[l] = static_cast<T>(from[l * v_col]);
      } else if (wide == sliver) {
        for (std::int64_t l = 0; l < 2 * Simd<T>::kWidth; ++l) to[l] = static_cast<T>(from[l]);
      } else {
        for (std::int64_t l = 0; l < wide; ++l) to[l] = static_cast<T>(from[l]);
      }
    }
  }
}

}  // namespace ct::gemm
