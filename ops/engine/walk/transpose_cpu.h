#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include <cotangent/core/base/per_thread.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/vector.h>
#include <cotangent/ops/engine/walk/plan.h>

// Transposes on the CPU: tiles that are turned in registers.

namespace ct::walk {

// Small squares of kLanes x kLanes elements fill as many vector registers, of 32 bytes at most.
template <class Word>
inline constexpr int kLanes = std::min(std::min(simd::kVectorBytes, 32) / static_cast<int>(sizeof(Word)),
                                       sizeof(Word) == 1 ? 16 : 8);
template <class Word>
using Lanes = simd::Vector<Word, kLanes<Word>* static_cast<int>(sizeof(Word))>;

// a0 b0 a1 b1 ..., of the lower (kUpper = 0) or the upper halves of a and b.
template <class Word, int kUpper, int... I>
CT_INLINE Lanes<Word> interleave(Lanes<Word> a, Lanes<Word> b, std::integer_sequence<int, I...>) {
  constexpr int n = kLanes<Word>;
  return __builtin_shufflevector(a.v, b.v, (I % 2 * n + I / 2 + kUpper * n / 2)...);
}

// dst[i * dst_step + j] = src[j * src_step + i]. Number the elements of the square by the bits of (row,
// lane): interleaving row i with row i + n/2 rotates these bits by one place, so log2(n) rounds exchange row
// and lane. Inlined, for a call of a square of 8 words takes 6% more instructions.
template <class Word>
[[gnu::always_inline]] inline void transpose_square(Word* dst, std::int64_t dst_step, const Word* src,
                                                    std::int64_t src_step) {
  constexpr int n = kLanes<Word>;
  constexpr auto lanes = std::make_integer_sequence<int, n>{};
  Lanes<Word> a[n], b[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) a[i] = Lanes<Word>::load(src + i * src_step);
#pragma GCC unroll 16
  for (int round = 1; round < n; round *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < n / 2; ++i) {
      b[2 * i] = interleave<Word, 0>(a[i], a[i + n / 2], lanes);
      b[2 * i + 1] = interleave<Word, 1>(a[i], a[i + n / 2], lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) a[i] = b[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) a[i].store(dst + i * dst_step);
}

// Copies a plan whose source runs along `axis` and whose destination runs along the innermost axis.
//
// A tile is read row by row into a buffer and turned on the way out, so that a line of either side is
// touched once and several lines of each page at a time. Without the buffer, rows a power of two apart would
// all fall into one set of the cache and push each other out; its own rows are padded for the same reason.
template <class Word>
void copy_transposed(const CopyPlan& p, int axis, Word* dst, const Word* src) {
  constexpr std::int64_t kTile = sizeof(Word) == 8 ? 64 : 128;
  constexpr std::int64_t kRow = kTile + 64 / static_cast<std::int64_t>(sizeof(Word));
  constexpr std::int64_t n = kLanes<Word>;
  const int inner = p.inner();
  const std::int64_t rows = p.size[axis], columns = p.size[inner];  // of dst
  const std::int64_t dst_step = p.dst[axis], src_step = p.src[inner];
  CopyPlan outer;  // the other axes
  for (int i = 0; i < inner; ++i) {
    if (i == axis) continue;
    outer.size[outer.rank] = p.size[i];
    outer.dst[outer.rank] = p.dst[i];
    outer.src[outer.rank++] = p.src[i];
  }
  const std::int64_t row_tiles = chunk_count(rows, kTile);
  const std::int64_t matrices = p.numel / (rows * columns);
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 16) / (std::min(rows, kTile) * columns));
  parallel_for(matrices * row_tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    struct alignas(64) Tile {
      Word words[kTile][kRow];
    };
    auto& tile = per_thread<Tile>().words;  // too large for small stacks
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t row = t % row_tiles * kTile;
      const std::int64_t height = std::min(kTile, rows - row);
      const std::int64_t matrix = t / row_tiles;
      Word* to = dst + row * dst_step;
      const Word* from = src + row;
      for_each_run(outer, matrix, matrix + 1, [&](std::int64_t d, std::int64_t s, std::int64_t) {
        to += d;
        from += s;
      });
      for (std::int64_t column = 0; column < columns;
           column += kTile, to += kTile, from += kTile * src_step) {
        const std::int64_t width = std::min(kTile, columns - column);
        for (std::int64_t c = 0; c < width; ++c)
          std::memcpy(tile[c], from + c * src_step, static_cast<std::size_t>(height) * sizeof(Word));
        const std::int64_t whole_rows = height / n * n, whole_columns = width / n * n;
        for (std::int64_t r = 0; r < whole_rows; r += n) {
          for (std::int64_t c = 0; c < whole_columns; c += n)
            transpose_square(to + r * dst_step + c, dst_step, &tile[c][r], kRow);
          if (whole_columns < width)
            for (std::int64_t i = r; i < r + n; ++i)
              for (std::int64_t c = whole_columns; c < width; ++c) to[i * dst_step + c] = tile[c][i];
        }
        for (std::int64_t r = whole_rows; r < height; ++r)
          for (std::int64_t c = 0; c < width; ++c) to[r * dst_step + c] = tile[c][r];
      }
    }
  });
}

}  // namespace ct::walk
