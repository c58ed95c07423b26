#pragma once

#include <cfloat>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/math.h>

// The maximum and the sum of exponentials of a row in one pass: when a larger element comes, the sum so far
// is scaled down. For .cu files.

namespace ct::gpu {

/// Finite, so that a logit of -inf is e^-inf = 0 and not NaN.
template <class C>
constexpr C kLowest = sizeof(C) == 8 ? -DBL_MAX : -FLT_MAX;

/// What has been seen of a row: max x, sum e^(x - max), and, with f factors of L - x[c] in a loss,
/// sum f (x - ref) and sum f. ref is the row's first logit: without it, large logits would cancel.
template <class C, bool Factors>
struct Online {
  C max = kLowest<C>, exps = 0, dot = 0, mass = 0;

  template <int N>
  __device__ __forceinline__ void add(const C (&x)[N]) {
    C top = x[0];
#pragma unroll
    for (int q = 1; q < N; ++q) top = x[q] > top ? x[q] : top;
    if (top > max) {
      exps *= exp_fast(max - top);
      max = top;
    }
#pragma unroll
    for (int q = 0; q < N; ++q) exps += exp_fast(x[q] - max);
  }
  __device__ __forceinline__ void add_factor(C f, C x) {
    dot += f * x;
    mass += f;
  }
  __device__ __forceinline__ void merge(C other_max, C other_exps) {
    const C top = other_max > max ? other_max : max;
    exps = exps * exp_fast(max - top) + other_exps * exp_fast(other_max - top);
    max = top;
  }
  /// Over a warp, into all its lanes.
  __device__ __forceinline__ void merge_warp() {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
      merge(__shfl_xor_sync(~0u, max, offset), __shfl_xor_sync(~0u, exps, offset));
    if constexpr (Factors) {
      dot = gpu::warp_sum(dot);
      mass = gpu::warp_sum(mass);
    }
  }
  /// Over a block, into thread 0.
  __device__ __forceinline__ void merge_block() {
    __shared__ Online warps[32];
    merge_warp();
    __syncthreads();  // the row before may still be read
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = *this;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    *this = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : Online{};
    merge_warp();
  }
};

}  // namespace ct::gpu
