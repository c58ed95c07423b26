#pragma once

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/mma/ptx.cuh>

#include <cstdint>

// The last rung of the GPU's gemm in f32, which what stands on it (linear_relu.cu) shares. The others are in gemm.cu.

namespace ct::ladder::gemm {

/// Rung "double-buffer". While a block multiplies one step of k, the next ones are on their way: cp.async brings them to
/// shared memory past the registers, so waiting for memory and arithmetic overlap, and one barrier per step is left of
/// two. Copies of 16 bytes leave A as it is, rows of kDepth numbers; so a thread reads four steps of a row at once, and
/// rows are four numbers longer than they need be, which puts those that a warp reads together into different banks.
/// A warp's threads stand in 4 rows by 8 columns: 8 x 16 bytes of B are one access without conflict, and each number of
/// A is read by 8 threads at once. A thread has kTall rows, 4 apart, and kWide / 4 groups of four columns, 32 apart. For
/// each number that it reads from shared memory it makes kTall kWide / (kTall + kWide) multiply-adds: that ratio must
/// outweigh the 32 lanes that arithmetic has to the one access of shared memory.
template <int kTallOf, int kWideOf, int kWarpRowsOf, int kWarpColsOf, int kDepthOf, int kStagesOf>
struct Pipeline {
  static constexpr int kTall = kTallOf, kWide = kWideOf, kDepth = kDepthOf, kStages = kStagesOf;
  static constexpr int kWarpRows = kWarpRowsOf, kWarpCols = kWarpColsOf;  // warps of a block
  static constexpr int kThreads = 32 * kWarpRows * kWarpCols;
  static constexpr int kRows = 4 * kTall * kWarpRows, kCols = 8 * kWide * kWarpCols;  // of C, of a block
  static constexpr int kPitch = kDepth + 4;
  static constexpr int kStage = kRows * kPitch + kDepth * kCols;  // numbers
  static constexpr int kBytes = kStages * kStage * 4;
};

/// C[m, n] = finish(A[m, k] B[k, n], column): m, n and k are multiples of what a block takes.
template <class P, class Finish>
__global__ void __launch_bounds__(P::kThreads, (P::kTall * P::kWide == 64 ? 512 : 256) / P::kThreads)
    pipeline_kernel(const float* a, const float* b, float* c, int n, int k, Finish finish) {
  extern __shared__ float4 memory[];
  float* const shared = reinterpret_cast<float*>(memory);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  a += static_cast<std::int64_t>(blockIdx.y) * P::kRows * k;
  b += blockIdx.x * P::kCols;

  const auto load = [&](int step) {
    if (step * P::kDepth < k) {
      float* const to_a = shared + step % P::kStages * P::kStage;
      float* const to_b = to_a + P::kRows * P::kPitch;
#pragma unroll
      for (int i = thread; i < P::kRows * P::kDepth / 4; i += P::kThreads) {
        const int row = i / (P::kDepth / 4), column = i % (P::kDepth / 4) * 4;
        mma::copy_async_16(mma::shared_address(to_a + row * P::kPitch + column),
                           a + static_cast<std::int64_t>(row) * k + step * P::kDepth + column, true);
      }
#pragma unroll
      for (int i = thread; i < P::kDepth * P::kCols / 4; i += P::kThreads) {
        const int row = i / (P::kCols / 4), column = i % (P::kCols / 4) * 4;
        mma::copy_async_16(mma::shared_address(to_b + row * P::kCols + column),
                           b + static_cast<std::int64_t>(step * P::kDepth + row) * n + column, true);
      }
    }
    mma::copy_async_commit();  // also an empty group, so that their number tells the step
  };

  const int row = warp / P::kWarpCols * 4 * P::kTall + lane / 8;
  const int column = warp % P::kWarpCols * 8 * P::kWide + lane % 8 * 4;
  float sum[P::kTall][P::kWide] = {};
  for (int step = 0; step < P::kStages - 1; ++step) load(step);
  for (int step = 0; step * P::kDepth < k; ++step) {
    mma::copy_async_wait<P::kStages - 2>();
    __syncthreads();  // all see this step's copies, and none still reads what the next copies overwrite
    load(step + P::kStages - 1);
    const float* const from_a = shared + step % P::kStages * P::kStage + row * P::kPitch;
    const float* const from_b = shared + step % P::kStages * P::kStage + P::kRows * P::kPitch + column;
#pragma unroll
    for (int p = 0; p < P::kDepth; p += 4) {
      float4 x[P::kTall];
#pragma unroll
      for (int i = 0; i < P::kTall; ++i)
        x[i] = *reinterpret_cast<const float4*>(from_a + 4 * i * P::kPitch + p);
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        float y[P::kWide];
#pragma unroll
        for (int j = 0; j < P::kWide; j += 4)
          *reinterpret_cast<float4*>(y + j) =
              *reinterpret_cast<const float4*>(from_b + (p + q) * P::kCols + 8 * j);
#pragma unroll
        for (int i = 0; i < P::kTall; ++i)
#pragma unroll
          for (int j = 0; j < P::kWide; ++j) sum[i][j] += (&x[i].x)[q] * y[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < P::kTall; ++i)
#pragma unroll
    for (int j = 0; j < P::kWide; j += 4) {
      const int at = static_cast<int>(blockIdx.x) * P::kCols + column + 8 * j;
      float* const to = c + (static_cast<std::int64_t>(blockIdx.y) * P::kRows + row + 4 * i) * n + at;
      *reinterpret_cast<float4*>(to) =
          make_float4(finish(sum[i][j], at), finish(sum[i][j + 1], at + 1), finish(sum[i][j + 2], at + 2),
                      finish(sum[i][j + 3], at + 3));
    }
}

template <class P, class Finish>
void launch_pipeline(int m, int n, int k, const float* a, const float* b, float* c, Finish finish) {
  gpu::launch("gemm", pipeline_kernel<P, Finish>, dim3(n / P::kCols, m / P::kRows), P::kThreads, P::kBytes, a,
              b, c, n, k, finish);
}

/// What was fastest on an H200.
using Best = Pipeline<8, 16, 4, 1, 32, 2>;

}  // namespace ct::ladder::gemm
