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
               const auto columns = static_cast<int>(std::min<std::int64_t>(kColumns, e.inner - first));
               body(columns, [&](const auto& f) {
                 for (std::int64_t r = 0; r < e.n; ++r)
                   for_blocks(columns, [&](std::int64_t j, int n) {
                     f((item / tiles * e.n + r) * e.inner + first + j, static_cast<int>(j), n);
                   });
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

/// The largest of n elements, in vectors V.
template <class V, class T>
CT_INLINE typename V::Scalar largest(const T* x, std::int64_t n) {
  V a, b, top(-std::numeric_limits<typename V::Scalar>::infinity()), other = top;
  simd::for_pairs<V>(
      0, n,
      [&](std::int64_t k) {
        V::load_pair(x + k, a, b);
        top = kMax(top, a), other = kMax(other, b);
      },
      [&](std::int64_t k, auto first) { top = kMax(top, V::load(x + k, first, top)); });
  return kMax(top, other).across(kMax);
}

}  // namespace ct::rows
