#pragma once

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/attention/mma/common.cuh>

// Shared by the backward kernels beside their products: sums of dq in a fixed order, and the sums per row.
//
// Blocks of threads own keys, but dq sums over keys. So that every run adds in the same order, a block of
// queries has a counter, and the key blocks that see it add to its partial sum from the last key block to
// the first; key block 0, which comes last, writes the result. The order costs little: under causality a key
// block starts at its diagonal, so block j reaches queries m a step later than block j + 1 has left them.
//
// Waiting on another block is safe only if that one already runs. Hence tickets: blocks take their work in
// the order in which they start, later key blocks first, and wait only for earlier tickets.

namespace ct::attention::mma {

/// The number of this block of threads in the order of starting.
__device__ __forceinline__ int take_ticket(int* counter) {
  __shared__ int ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(counter, 1);
  __syncthreads();
  return ticket;
}

/// Waits until `turns` blocks have passed their turn.
__device__ __forceinline__ void await_turn(const int* turn, int turns) {
  int seen;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(turn) : "memory");
  } while (seen < turns);
}
/// Says that `turns` blocks have now passed, and that what this thread has seen written is there.
__device__ __forceinline__ void give_turn(int* turn, int turns) {
  __threadfence();
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(turn), "r"(turns) : "memory");
}

/// dq = 0 for queries [0, count) of some heads.
template <int Threads>
__device__ void zero_queries(const BackwardProblem& p, int batch, int head, int heads, int count) {
  count = min(count, p.queries);
  const int chunks = p.head_dim / 8;
  for (int h = head; h < head + heads; ++h)
    for (int n = static_cast<int>(threadIdx.x); n < count * chunks; n += Threads)
      *reinterpret_cast<uint4*>(row_pointer_mutable(p.grad_q, batch, h, n / chunks) + n % chunks * 8) =
          uint4{0, 0, 0, 0};
}

/// Whether a row's scores are so large that its log-sum-exp in units of log2 is rounded by more than 2^-18.
__device__ __forceinline__ bool is_large(float largest) {
  return fabsf(largest) >= 64 && largest != -INFINITY;
}
/// The statistics of query i in units of log2, as scores of rows that are large, and of all where some are, need them: the largest
/// score, +inf for a row that sees nothing, and the logarithm of the sum.
__device__ __forceinline__ float2 log2_statistics(const BackwardProblem& p, std::int64_t bh, int i) {
  const float2 row = p.statistics[bh * p.queries + min(i, p.queries - 1)];
  return {row.x == -INFINITY ? INFINITY : log2_base(row.x), row.y * kLog2E};
}

/// Per query row: the logarithm of its sum of exponentials in units of log2, +inf for a row that sees nothing (so that 2^(s - it)
/// is 0), and delta, the product of cotangent and result. Where a row's scores are large that logarithm has lost its digits, and
/// p.large is set. Two arrays, each with `padded` rows per head; rows past the last query see nothing. `lanes` lanes, a power
/// of 2, share a row. One per file (static): files that are not compiled for the same architectures must not share a kernel.
template <class T>
static __global__ void __launch_bounds__(256)
    row_terms_kernel(const __grid_constant__ BackwardProblem p, int padded, int lanes) {
  gpu::wait_for_previous();
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t row = thread / lanes, rows = std::int64_t{p.batch} * p.heads * padded;
  const int chunk = static_cast<int>(thread % lanes);
  const int i = static_cast<int>(row % padded), bh = static_cast<int>(row / padded);
  float sum = 0;
  if (row < rows && i < p.queries && chunk < p.value_dim / 8) {
    const int b = bh / p.heads, h = bh % p.heads;
    const uint4 g = __ldg(reinterpret_cast<const uint4*>(row_pointer(p.grad_out, b, h, i)) + chunk);
    const uint4 y = __ldg(reinterpret_cast<const uint4*>(row_pointer(p.out, b, h, i)) + chunk);
    const std::uint32_t gs[4] = {g.x, g.y, g.z, g.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float2 a = unpack<T>(gs[n]), c = unpack<T>(ys[n]);
      sum = fmaf(a.x, c.x, fmaf(a.y, c.y, sum));
    }
  }
  sum = gpu::warp_sum(sum, lanes);
  if (row < rows && chunk == 0) {
    const float2 of = i < p.queries ? p.statistics[std::int64_t{bh} * p.queries + i] : float2{-INFINITY, 0};
    p.row_terms[row] = of.x == -INFINITY ? INFINITY : (of.x + of.y) * kLog2E;
    if (is_large(of.x)) *p.large = 1;
    p.row_terms[rows + row] = sum;
  }
}

template <class T>
static void launch_row_terms(const BackwardProblem& p, int padded) {
  int lanes = 1;
  while (lanes * 8 < p.value_dim) lanes *= 2;
  const std::int64_t rows = std::int64_t{p.batch} * p.heads * padded;
  const dim3 grid(gpu::blocks_for("scaled_dot_product_attention", rows * lanes, 256));
  gpu::launch_waiting("scaled_dot_product_attention", row_terms_kernel<T>, grid, dim3(256), 0, p, padded,
                      lanes);
}

/// Zeros in the ticket counter, one turn per block of queries, and `large`, which lies behind them.
inline void clear_turns(BackwardProblem& p, std::int64_t turns) {
  CT_CUDA_OP(
      "scaled_dot_product_attention",
      cudaMemsetAsync(p.turns, 0, static_cast<std::size_t>(turns + 2) * sizeof(int), gpu::native_stream()));
  p.large = p.turns + turns + 1;
}

}  // namespace ct::attention::mma
