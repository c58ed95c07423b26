#pragma once

#include <limits>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/math.h>

// The maximum and the sum of exponentials of a row in one pass: when a larger element comes, the sum so far
// is scaled down. For .cu files.

namespace ct::rows {

/// State after a part of a row: max x, sum e^(x - max), and, with f factors of L - x[c] in a loss,
/// sum f (max - x) and sum f. Terms are differences from the maximum, of one sign: large logits do not cancel. The maximum
/// begins finite, so that an element of -inf is e^-inf = 0 and not NaN; a NaN ends up in the sum. A value for the
/// combinations of core/cuda/block_reduce.h, with gpu::Plus.
template <class C, bool Factors = false>
struct OnlineSoftmax {
  C max = std::numeric_limits<C>::lowest(), exps = 0, dot = 0, mass = 0;

  template <int N>
  __device__ __forceinline__ void add(const C (&x)[N]) {
    C top = x[0];
#pragma unroll
    for (int q = 1; q < N; ++q) top = x[q] > top ? x[q] : top;
    C scale = 1;
    if (top > max) {
      scale = gpu::exp_fast(max - top);
      if constexpr (Factors) dot = dot_from(top);
      max = top;
    }
    exps = gpu::product_sum(exps, scale, gpu::exp_fast(x[0] - max));
#pragma unroll
    for (int q = 1; q < N; ++q) exps += gpu::exp_fast(x[q] - max);
  }
  /// An element that add() has seen, with its factor.
  __device__ __forceinline__ void add_factor(C f, C x) {
    dot = gpu::product_sum(f, max - x, dot);
    mass += f;
  }
  /// sum f (top - x). Without factors the maximum may be the first one, and the difference infinite.
  __device__ __forceinline__ C dot_from(C top) const {
    return mass == 0 ? dot : gpu::product_sum(mass, top - max, dot);
  }
  friend __device__ __forceinline__ OnlineSoftmax operator+(const OnlineSoftmax& a, const OnlineSoftmax& b) {
    const C top = b.max > a.max ? b.max : a.max;
    const C of_a = a.exps * gpu::exp_fast(a.max - top);
    OnlineSoftmax sum{top, gpu::product_sum(b.exps, gpu::exp_fast(b.max - top), of_a)};
    if constexpr (Factors) sum.dot = a.dot_from(top) + b.dot_from(top), sum.mass = a.mass + b.mass;
    return sum;
  }
  friend __device__ __forceinline__ OnlineSoftmax shuffle_xor(const OnlineSoftmax& v, int offset, int width) {
    using gpu::shuffle_xor;
    OnlineSoftmax other{shuffle_xor(v.max, offset, width), shuffle_xor(v.exps, offset, width)};
    if constexpr (Factors) {
      other.dot = shuffle_xor(v.dot, offset, width);
      other.mass = shuffle_xor(v.mass, offset, width);
    }
    return other;
  }
};

}  // namespace ct::rows
