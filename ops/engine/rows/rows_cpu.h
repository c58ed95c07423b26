#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/engine/rows/blocks_cpu.h>
#include <cotangent/ops/engine/rows/extents.h>

// The walk over rows on the CPU, for kernels that need each row more than once: chunks of rows go to threads, a row or a
// tile of columns stays in the cache, and a kernel sees blocks of it.

namespace ct::rows {

inline constexpr std::int64_t kGrain = 16384;  // elements per chunk

/// Calls body(begin, end) for chunks of rows of n elements; chunks depend on the problem alone.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t n, const Body& body, std::int64_t grain = kGrain) {
  parallel_for(rows, std::max<std::int64_t>(1, grain / n), body);
}

/// Calls body(first, count) for the blocks of n elements.
template <class Body>
inline void for_blocks(std::int64_t n, const Body& body) {
  for (std::int64_t i = 0; i < n; i += kBlock)
    body(i, static_cast<int>(std::min<std::int64_t>(kBlock, n - i)));
}

/// Rows that are neighbours in memory: calls body(columns, each) for tiles of at most kColumns of them. each(f) calls
/// f(offset, first column, columns) for the blocks of the tile, row by row, so that they arrive as a stream.
template <class Body>
void for_tiles(const Extents& e, const Body& body) {
  const std::int64_t tiles = chunk_count(e.inner, kColumns);
  for_rows(e.outer * tiles, e.n * std::min<std::int64_t>(e.inner, kColumns),
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t item = begin; item < end; ++item) {
               const std::int64_t first = item % tiles * kColumns;
               const std::int64_t offset = item / tiles * e.n * e.inner + first;
               const auto columns = static_cast<int>(std::min<std::int64_t>(kColumns, e.inner - first));
               body(columns, [&](const auto& f) {
                 for (std::int64_t r = 0; r < e.n; ++r)
                   for (int j = 0; j < columns; j += kBlock)
                     f(offset + r * e.inner + j, j, std::min(kBlock, columns - j));
               });
             }
           });
}

/// Space for n numbers, on the stack where they are few.
class Work {
 public:
  explicit Work(std::int64_t n) {
    if (n > kBlock) many_ = Tensor::allocate({n}, DType::f32, Device{});
  }
  float* data() { return many_.defined() ? many_.data<float>() : few_; }

 private:
  float few_[kBlock];
  Tensor many_;
};

/// The larger one, in one instruction. It may pass over a NaN, which then is met in the sum of the row.
inline constexpr auto kMax = [](const auto& a, const auto& b) {
  using simd::where;
  return where(b > a, b, a);
};

}  // namespace ct::rows
