#pragma once

#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/mma/ptx.cuh>

#include <cstdint>

// The last rung of the GPU's gemm in f32, which what stands on it (linear_relu.cu) shares. The others are in gemm.cu.

namespace ct::ladder::gemm {

/// Rung "double-buffer". While a block multiplies one step of k, the next ones are on their way: cp.async brings them to
/// shared memory past the registers. So memory and arithmetic overlap, and one barrier per step is enough instead of two.
/// A's tile is stored by columns, as before; copies of four bytes turn it on the way, and columns are four numbers longer
/// than they need be, which puts the 32 numbers that a warp copies into as many banks. A thread's operands of a step of k
/// lie in two sets of registers: one is filled while the other is multiplied, over the barrier as well, which stands before
/// the last step of the current tile. And the copies are asked for in four parts, between products: asked for at once, they
/// keep the reads of shared memory waiting behind them. A warp's threads stand in 4 rows by 8 columns, so that what they
/// read of a step is 64 and 128 bytes side by side. A thread has kTall rows, in groups of four that are 16 apart, and kWide
/// columns, in groups of four that are 32 apart. For each number that it reads from shared memory it makes kTall kWide /
/// (kTall + kWide) multiply-adds: that ratio must outweigh the 32 lanes that arithmetic has to the one access of shared
/// memory.
template <int kTallOf, int kWideOf, int kWarpRowsOf, int kWarpColsOf, int kDepthOf, int kStagesOf>
struct Pipeline {
  static constexpr int kTall = kTallOf, kWide = kWideOf, kDepth = kDepthOf, kStages = kStagesOf;
  static constexpr int kWarpRows = kWarpRowsOf, kWarpCols = kWarpColsOf;  // warps of a block
  static constexpr int kThreads = 32 * kWarpRows * kWarpCols;
  static constexpr int kRows = 4 * kTall * kWarpRows, kCols = 8 * kWide * kWarpCols;  // of C, of a block
  static constexpr int kPitch = kRows + 4;
  static constexpr int kStage = kDepth * (kPitch + kCols);  // numbers
  static constexpr int kBytes = kStages * kStage * 4;
  // Blocks per multiprocessor that its registers allow: 128 registers a thread where a thread has 64 sums, else the maximum
  // of 255.
  static constexpr int kBlocks = (kTall * kWide == 64 ? 512 : 256) / kThreads;
};

/// C[m, n] = finish(A[m, k] B[k, n], column): m, n and k are multiples of what a block takes.
template <class P, class Finish>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks)
    pipeline_kernel(const float* a, const float* b, float* c, int n, int k, Finish finish) {
  extern __shared__ float4 memory[];
  float* const shared = reinterpret_cast<float*>(memory);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;

  // This thread's share of the copy: of A element (row, p) of each kRowStep rows, of B four elements of each kDepthStep
  // rows.
  constexpr int kRowStep = P::kThreads / P::kDepth, kDepthStep = 4 * P::kThreads / P::kCols;
  const int p_a = thread % P::kDepth, row_a = thread / P::kDepth;
  const int p_b = 4 * thread / P::kCols, column_b = 4 * thread % P::kCols;
  a += (static_cast<std::int64_t>(blockIdx.y) * P::kRows + row_a) * k + p_a;
  b += static_cast<std::int64_t>(p_b) * n + blockIdx.x * P::kCols + column_b;
  const std::int64_t step_a = static_cast<std::int64_t>(kRowStep) * k,
                     step_b = static_cast<std::int64_t>(kDepthStep) * n;
  const std::uint32_t to_a = mma::shared_address(shared + p_a * P::kPitch + row_a);
  const std::uint32_t to_b = mma::shared_address(shared + P::kDepth * P::kPitch + p_b * P::kCols + column_b);
  constexpr int kParts = 4;
  int loaded = 0, stage_in = 0, stage_out = 0;
  const auto load = [&](int part) {
    if (loaded < k) {
      const std::uint32_t at = static_cast<std::uint32_t>(stage_in * P::kStage * 4);
#pragma unroll
      for (int i = part; i < P::kRows / kRowStep; i += kParts)
        mma::copy_async_4(to_a + at + i * kRowStep * 4, a + i * step_a, true);
#pragma unroll
      for (int i = part; i < P::kDepth / kDepthStep; i += kParts)
        mma::copy_async_16(to_b + at + i * kDepthStep * P::kCols * 4, b + i * step_b, true);
    }
    if (part < kParts - 1) return;
    mma::copy_async_commit();  // also an empty group, so that their number tells the step
    a += P::kDepth, b += static_cast<std::int64_t>(P::kDepth) * n, loaded += P::kDepth;
    if (++stage_in == P::kStages) stage_in = 0;
  };

  const int row = warp / P::kWarpCols * 4 * P::kTall + lane / 8 * 4;
  const int column = warp % P::kWarpCols * 8 * P::kWide + lane % 8 * 4;
  float4 x[2][P::kTall / 4], y[2][P::kWide / 4];
  const auto fetch = [&](int p) {
    const float* const from_a = shared + stage_out * P::kStage + p * P::kPitch + row;
    const float* const from_b =
        shared + stage_out * P::kStage + P::kDepth * P::kPitch + p * P::kCols + column;
#pragma unroll
    for (int i = 0; i < P::kTall / 4; ++i) x[p % 2][i] = *reinterpret_cast<const float4*>(from_a + 16 * i);
#pragma unroll
    for (int j = 0; j < P::kWide / 4; ++j) y[p % 2][j] = *reinterpret_cast<const float4*>(from_b + 32 * j);
  };
  const auto arrive = [&] {
    mma::copy_async_wait<P::kStages - 2>();
    __syncthreads();  // all see this stage's copies, and none still reads what the next copies overwrite
  };

  float sum[P::kTall][P::kWide] = {};
  for (int s = 0; s < (P::kStages - 1) * kParts; ++s) load(s % kParts);
  arrive();
  fetch(0);
  for (int done = 0; done < k; done += P::kDepth) {
#pragma unroll
    for (int p = 0; p < P::kDepth; ++p) {
      if (p == P::kDepth - 1) {
        arrive();
        if (++stage_out == P::kStages) stage_out = 0;
      }
      fetch((p + 1) % P::kDepth);
      if (p % (P::kDepth / kParts) == 0) load(p / (P::kDepth / kParts));
#pragma unroll
      for (int i = 0; i < P::kTall; ++i)
#pragma unroll
        for (int j = 0; j < P::kWide; ++j)
          sum[i][j] += (&x[p % 2][i / 4].x)[i % 4] * (&y[p % 2][j / 4].x)[j % 4];
    }
  }
#pragma unroll
  for (int i = 0; i < P::kTall; ++i)
#pragma unroll
    for (int j = 0; j < P::kWide; j += 4) {
      const int at = static_cast<int>(blockIdx.x) * P::kCols + column + 8 * j;
      const std::int64_t line = static_cast<std::int64_t>(blockIdx.y) * P::kRows + row + i / 4 * 16 + i % 4;
      *reinterpret_cast<float4*>(c + line * n + at) =
          make_float4(finish(sum[i][j], at), finish(sum[i][j + 1], at + 1), finish(sum[i][j + 2], at + 2),
                      finish(sum[i][j + 3], at + 3));
    }
}

template <class P, class Finish>
void launch_pipeline(int m, int n, int k, const float* a, const float* b, float* c, Finish finish) {
  gpu::launch("gemm", pipeline_kernel<P, Finish>, dim3(n / P::kCols, m / P::kRows), P::kThreads, P::kBytes, a,
              b, c, n, k, finish);
}

/// The fastest on an H200.
using Best = Pipeline<16, 8, 2, 2, 16, 3>;

}  // namespace ct::ladder::gemm
