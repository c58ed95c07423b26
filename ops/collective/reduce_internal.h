#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cotangent/core/base/dtype.h>
#include <cotangent/ops/collective/collective.h>

// Sums of ranks on the host.

namespace ct::dist::detail {

template <class T, class Combine>
void combine_ranks(std::span<const void* const> in, std::size_t n, ReduceOp op, const Combine& combine,
                   T* out) {
  using C = compute_t<T>;
  constexpr std::size_t kBlock = 256;
  C sum[kBlock];
  for (std::size_t at = 0; at < n; at += kBlock) {
    const std::size_t m = std::min(kBlock, n - at);
    const T* from = static_cast<const T*>(in[0]) + at;
    for (std::size_t i = 0; i < m; ++i) sum[i] = static_cast<C>(from[i]);
    for (std::size_t r = 1; r < in.size(); ++r) {
      from = static_cast<const T*>(in[r]) + at;
      for (std::size_t i = 0; i < m; ++i) sum[i] = combine(sum[i], static_cast<C>(from[i]));
    }
    if (op == ReduceOp::mean)
      for (std::size_t i = 0; i < m; ++i) sum[i] = sum[i] / static_cast<C>(in.size());
    for (std::size_t i = 0; i < m; ++i) out[at + i] = static_cast<T>(sum[i]);
  }
}

/// `out`[i] becomes the sum of `in`[r][i] over the ranks r, in their order: in f32 for 16 bits, rounded once. `out` may be one of `in`.
inline void reduce(DType dtype, ReduceOp op, std::span<const void* const> in, std::size_t n, void* out) {
  visit_numeric("all_reduce", dtype, [&]<class T>(TypeTag<T>) {
    using C = compute_t<T>;
    const auto go = [&](const auto& combine) { combine_ranks(in, n, op, combine, static_cast<T*>(out)); };
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::mean: return go([](C a, C b) { return static_cast<C>(a + b); });
      case ReduceOp::prod: return go([](C a, C b) { return static_cast<C>(a * b); });
      case ReduceOp::max: return go([](C a, C b) { return b > a || b != b ? b : a; });  // NaN stays
      case ReduceOp::min: return go([](C a, C b) { return b < a || b != b ? b : a; });
    }
  });
}

}  // namespace ct::dist::detail
