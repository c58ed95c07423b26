#pragma once

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/ops/engine/rows/order_key.h>

// Selecting by rank over a block, for .cu files. Masses are integers, so the order of adding does not matter.

namespace ct::rows {

/// Sums of up to three integers at once over a block of whole warps, in all its threads.
template <int N>
__device__ __forceinline__ void block_totals(unsigned long long (&value)[N]) {
  __shared__ unsigned long long warps[32][N];
#pragma unroll
  for (int j = 0; j < N; ++j) value[j] = gpu::warp_sum(value[j]);
  __syncthreads();  // an earlier call may still be reading
  if (threadIdx.x % 32 == 0)
    for (int j = 0; j < N; ++j) warps[threadIdx.x / 32][j] = value[j];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < N; ++j) {
    value[j] = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) value[j] += warps[w][j];
  }
}

/// The largest key t for which the masses of all elements with keys >= t add up to at least `target`; 0 if
/// there is none. Two bits of it are found per pass over the n elements, by trying three keys at once. To be
/// called by all threads of a block.
template <class K, class KeyAt, class MassAt>
__device__ K block_threshold(long long n, unsigned long long target, const KeyAt& key_at,
                             const MassAt& mass_at) {
  K found = 0;
  for (int shift = 8 * static_cast<int>(sizeof(K)) - 2; shift >= 0; shift -= 2) {
    unsigned long long mass[3] = {};
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
      const K key = key_at(i);
      if (key < (found | K{1} << shift)) continue;
      const unsigned long long m = mass_at(i);
#pragma unroll
      for (int j = 0; j < 3; ++j) mass[j] += key >= (found | static_cast<K>(j + 1) << shift) ? m : 0;
    }
    block_totals(mass);
#pragma unroll
    for (int j = 2; j >= 0; --j)
      if (mass[j] >= target) {
        found |= static_cast<K>(j + 1) << shift;
        break;
      }
  }
  return found;
}

}  // namespace ct::rows
