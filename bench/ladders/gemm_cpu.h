#pragma once

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/vector.h>

#include <algorithm>
#include <cstdint>
#include <vector>

// The last rungs of the CPU's gemm, which what stands on it (linear_relu_cpu.cpp) shares. The others are in gemm_cpu.cpp.

namespace ct::ladder::gemm {

using std::int64_t;
using V = simd::Vector<float>;

/// Rows of a tile of C. Its sums leave at least three registers for what is multiplied: 24 of AVX-512's 32, 12 of AVX2's 16.
inline constexpr int kRows = simd::kVectorBytes == 64 ? 12 : 6;
inline constexpr int64_t kLanes = V::kSize, kCols = 2 * kLanes;

/// Rung "registers". A sum that lies in memory is read and written for each multiply-add; one in a register is not. So a
/// tile of C, kRows x kCols, stays in registers for all of k. Per step of k it takes two vectors of b and kRows numbers
/// of a, and makes 2 kRows multiply-adds of them: loads no longer hold up the arithmetic. That many sums are needed for
/// another reason as well: a multiply-add takes four cycles and up to two begin in each, so eight must be independent.
/// C's lines are asked for before they are wanted. c = (first ? 0 : c) + a b; element (i, p) of a is a[i * a_row + p * a_k]. `finish` sees each vector of the result, with
/// its first column, before it is stored.
template <class Finish>
CT_INLINE void tile(int64_t k, const float* a, int64_t a_row, int64_t a_k, const float* b, int64_t b_row,
                    float* c, int64_t c_row, bool first, Finish finish) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
    __builtin_prefetch(c + i * c_row, 1), __builtin_prefetch(c + i * c_row + kLanes, 1);
  V sum[kRows][2];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) sum[i][j] = first ? V(0.f) : V::load(c + i * c_row + j * kLanes);
  for (int64_t p = 0; p < k; ++p) {
    const V b0 = V::load(b + p * b_row), b1 = V::load(b + p * b_row + kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V x(a[i * a_row + p * a_k]);
      sum[i][0] = fma(x, b0, sum[i][0]);
      sum[i][1] = fma(x, b1, sum[i][1]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) finish(sum[i][j], j * kLanes).store(c + i * c_row + j * kLanes);
}

/// Rung "packing". In a tile's order neither operand is contiguous: b's rows are n elements apart, another page for each step.
/// Where n is a power of two all of them fall into the same few sets of the cache. So blocks are copied once, into the order in
/// which they are read: b in slivers of kCols columns, a in tiles of kRows rows, zeros beyond the edge. k is cut so that the
/// slivers' 64 KiB and the tiles of a block of rows stay in the second-level cache, from where each sliver meets all of them. A
/// copy is k n numbers, for 2 m k n operations.
inline constexpr int64_t kDepth = 512, kBlockRows = 4 * kRows;

inline void pack_a(const float* a, int64_t a_row, int64_t rows, int64_t depth, float* to) {
  for (int64_t i = 0; i < rows; i += kRows)
    for (int64_t p = 0; p < depth; ++p)
      for (int64_t r = 0; r < kRows; ++r) *to++ = i + r < rows ? a[(i + r) * a_row + p] : 0;
}

/// The slivers from column `from` to `to` of a block of b.
inline void pack_b(const float* b, int64_t n, int64_t depth, int64_t from, int64_t to, float* packed) {
  for (int64_t j = from; j < to; j += kCols)
    for (int64_t p = 0; p < depth; ++p) {
      float* at = packed + j * depth + p * kCols;
      for (int64_t l = 0; l < kCols; ++l) at[l] = j + l < n ? b[p * n + j + l] : 0;
    }
}

/// C = A B out of packed blocks, with `finish(sum, column)` on the whole sums. `threads` lets all threads pack b and take
/// blocks of rows (rung "threads"): they share b's slivers, and each has tiles of a and C of its own.
template <class Finish>
void packed_product(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c, bool threads,
                    Finish finish) {
  const int64_t wide = (n + kCols - 1) / kCols * kCols;
  std::vector<float> b_packed(static_cast<std::size_t>(wide * std::min(k, kDepth)));
  for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - p0);
    const bool first = p0 == 0, last = p0 + depth == k;
    const auto each = [&](int64_t end, int64_t step, auto&& body) {
      if (threads) return parallel_for(end, step, body);
      for (int64_t i = 0; i < end; i += step) body(i, std::min(end, i + step));
    };
    each(wide, 8 * kCols,
         [&](int64_t from, int64_t to) { pack_b(b + p0 * n, n, depth, from, to, b_packed.data()); });
    each(m, kBlockRows, [&](int64_t i0, int64_t end) {
      alignas(64) float a_packed[kBlockRows * kDepth], edge[kRows * kCols];
      pack_a(a + i0 * k + p0, k, end - i0, depth, a_packed);
      for (int64_t j = 0; j < n; j += kCols)
        for (int64_t i = i0; i < end; i += kRows) {
          const int64_t rows = std::min<int64_t>(kRows, end - i), cols = std::min(kCols, n - j);
          const bool whole = rows == kRows && cols == kCols;
          float* at = c + i * n + j;
          // A tile that C's edge cuts is summed in a place of its own.
          const auto move = [&](auto&& one) {
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t l = 0; l < cols; ++l) one(at[r * n + l], edge[r * kCols + l]);
          };
          if (!whole && !first) move([](float from, float& to) { to = from; });
          const auto run = [&](auto done) {
            tile(depth, a_packed + (i - i0) * depth, 1, kRows, b_packed.data() + j * depth, kCols,
                 whole ? at : edge, whole ? n : kCols, first, done);
          };
          if (last)
            run([&](V sum, int64_t column) { return finish(sum, j + column); });
          else
            run([](V sum, int64_t) { return sum; });
          if (!whole) move([](float& to, float from) { to = from; });
        }
    });
  }
}

}  // namespace ct::ladder::gemm
