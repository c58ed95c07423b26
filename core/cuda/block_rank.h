#pragma once

namespace ct::gpu {

/// How many threads of a block of kThreads before this one have `flag` set; `total` of the block. All threads call it.
template <int kThreads>
__device__ __forceinline__ int block_rank(bool flag, int& total) {
  __shared__ int warps[kThreads / 32];
  const unsigned set = __ballot_sync(~0u, flag);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncthreads();  // those of the call before have been read
  if (lane == 0) warps[warp] = __popc(set);
  __syncthreads();
  int before = 0;
  total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += warps[w];
    total += warps[w];
  }
  return before + __popc(set & ((1u << lane) - 1));
}

}  // namespace ct::gpu
