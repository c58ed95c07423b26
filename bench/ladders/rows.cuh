#pragma once

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/creation/creation.h>

#include "bench/ladders/ladder.h"

// Sums over a warp and a block, and memory for what lies between two kernels. For .cu files.

namespace ct::ladder {

__device__ inline float warp_sum(float v) {
  for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(~0u, v, s);
  return v;
}
/// Over a block of 256 threads, in all of them.
__device__ inline float block_sum(float v) {
  __shared__ float warps[8];
  v = warp_sum(v);
  __syncthreads();  // what the call before left has been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < 8; ++i) v += warps[i];
  return v;
}

/// n floats on the GPU, zeros or not set. The memory may be given back while kernels that use it are queued: what comes next
/// on the stream waits for them.
inline Tensor scratch(std::int64_t n, bool zero = false) {
  const TensorOptions on_gpu{.dtype = f32, .device = cuda(0)};
  return zero ? zeros({n}, on_gpu) : empty({n}, on_gpu);
}

/// A kernel over a grid of `blocks` blocks of 256 threads.
template <class Kernel, class... Args>
void launch256(Kernel kernel, dim3 blocks, const Args&... args) {
  gpu::launch("ladder", kernel, blocks, 256, 0, args...);
}

}  // namespace ct::ladder
