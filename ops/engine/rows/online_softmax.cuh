#pragma once

#include <limits>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/math.h>

// The maximum and the sum of exponentials of a row in one pass: when a larger element comes, the sum so far
// is scaled down. For .cu files.

namespace ct::rows {

/// State after a part of a row: max x, sum e^(x - max), and, with f factors of L - x[c] in a loss,
/// sum f (x - ref) and sum f. ref is the row's first logit: without it, large logits would cancel. The maximum begins
/// finite, so that an element of -inf is e^-inf = 0 and not NaN; a NaN ends up in the sum. A value for the
/// combinations of core/cuda/block_reduce.h, with gpu::Plus.
template <class C, bool Factors = false>
struct OnlineSoftmax {
  C max = std::numeric_limits<C>::lowest(), exps = 0, dot = 0, mass = 0;

  template <int N>
  __device__ __forceinline__ void add(const C (&x)[N]) {
    C top = x[0];
#pragma unroll
    for (int q = 1; q < N; ++q) top = x[q] > top ? x[q] : top;
    if (top > max) {
      exps *= gpu::exp_fast(max - top);
      max = top;
    }
#pragma unroll
    for (int q = 0; q < N; ++q) exps += gpu::exp_fast(x[q] - max);
  }
  __device__ __forceinline__ void add_factor(C f, C x) {
    dot += f * x;
    mass += f;
  }
  friend __device__ __forceinline__ OnlineSoftmax operator+(const OnlineSoftmax& a, const OnlineSoftmax& b) {
    const C top = b.max > a.max ? b.max : a.max;
    return {top, a.exps * gpu::exp_fast(a.max - top) + b.exps * gpu::exp_fast(b.max - top), a.dot + b.dot,
            a.mass + b.mass};
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
