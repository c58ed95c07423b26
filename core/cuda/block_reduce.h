#pragma once

// Sums over the threads of a block, for .cu files. The order of the additions depends on the number of
// threads alone, so the bits are the same in every run.

namespace ct::gpu {

/// The sum over a warp, in all its lanes.
template <class C>
__device__ __forceinline__ C warp_sum(C value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

/// The largest value of a warp, in all its lanes. Not for NaN.
template <class C>
__device__ __forceinline__ C warp_max(C value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const C other = __shfl_xor_sync(~0u, value, offset);
    value = other > value ? other : value;
  }
  return value;
}

/// The sum over a block of whole warps, in thread 0. All threads must call it.
template <class C>
__device__ C block_sum(C value) {
  __shared__ C warps[32];
  value = warp_sum(value);
  __syncthreads();  // an earlier call may still be reading
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32) value = warp_sum(threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : C(0));
  return value;
}

}  // namespace ct::gpu
