#pragma once

#include <cotangent/ops/engine/random/draw.h>

// Drawing positions by a block, for .cu files; the twin of engine/random/draw.h. Blocks have kThreads threads.

namespace ct::random {

inline constexpr int kThreads = 512;

/// The weights of a row, in global memory, cut into one piece for each thread, with the sums in front of the
/// pieces in shared memory.
struct Wheel {
  std::uint64_t* weights;
  long long n, piece;
  unsigned long long* starts;  // kThreads
  unsigned long long total;

  /// Adds the weights up; called by all threads of the block. Their writes to `weights` are visible.
  __device__ __forceinline__ void build(std::uint64_t* row, long long count, unsigned long long* shared) {
    weights = row, n = count, starts = shared;
    piece = (n + kThreads - 1) / kThreads;
    __syncthreads();
    const long long begin = threadIdx.x * piece, end = begin + piece < n ? begin + piece : n;
    unsigned long long sum = 0;
    for (long long i = begin; i < end; ++i) sum += weights[i];
    scan(sum);
  }
  /// Scans the threads' sums; `sum` is that of this thread's piece.
  __device__ __forceinline__ void scan(unsigned long long sum) {
    __shared__ unsigned long long warps[kThreads / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned long long up_to = sum;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const unsigned long long other = __shfl_up_sync(~0u, up_to, offset);
      if (lane >= offset) up_to += other;
    }
    __syncthreads();  // an earlier scan may still be read
    if (lane == 31) warps[warp] = up_to;
    __syncthreads();
    unsigned long long before = 0;
    total = 0;
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < warp) before += warps[w];
      total += warps[w];
    }
    starts[threadIdx.x] = before + up_to - sum;
    __syncthreads();
  }
  /// The last piece that starts at or before r: the one that r falls into.
  __device__ __forceinline__ int piece_of(unsigned long long r) const {
    int low = 0;
    for (int step = kThreads / 2; step > 0; step /= 2)
      if (starts[low + step] <= r) low += step;
    return low;
  }
  /// The position where the sum passes r < total. One thread is enough.
  __device__ __forceinline__ long long position(unsigned long long r) const {
    const int at = piece_of(r);
    return at * piece + walk(weights + at * piece, r - starts[at]);
  }
};

}  // namespace ct::random
