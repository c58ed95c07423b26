#pragma once

#include <cotangent/ops/engine/rows/rows.cuh>

// The kernels for what does not fit those of engine/rows/warp_rows.cuh. For softmax_cuda.cu only.

namespace ct::softmax_kernels {
namespace {

// ---- rows of any length and alignment ----

template <class T>
__device__ Stats<compute_t<T>> block_join(Stats<compute_t<T>> s) {
  using C = compute_t<T>;
  __shared__ C max_memory[32], sum_memory[32];
  const C max = gpu::block_combine(s.max, kMinusInf<C>, max_memory, gpu::Larger{});
  const C factor = s.max == max ? C(1) : s.max == kMinusInf<C> ? s.sum : exp_for<T>(s.max - max);
  const C sum = gpu::block_combine(s.sum * factor, 0, sum_memory, gpu::Plus{});
  return {max, sum};
}

template <class T, class Input>
__global__ void __launch_bounds__(512)
    loop_forward(bool logarithm, const T* __restrict__ x, T* __restrict__ y, std::int64_t n,
                 const __grid_constant__ Input input) {
  using C = compute_t<T>;
  const T* from = x + blockIdx.x * n;
  const std::int64_t offset = input.row_offset(blockIdx.x);
  const auto element = [&](std::int64_t i) {
    C v[1] = {gpu::to_compute(from[i])};
    input(offset, i, v);
    return v[0];
  };
  Stats<C> stats{kMinusInf<C>, 0};
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) stats = join<T>(stats, stats_of<C>(element(i)));
  stats = block_join<T>(stats);
  const bool blind = Input::hides && stats.max == kMinusInf<C> && stats.sum == 0;
  if (blind) stats.max = 0;
  // Without a finite maximum there is no softmax: every element of the row is NaN.
  const C scale = blind ? C(0) : isinf(stats.max) ? C(NAN) : scale_of(logarithm, stats.sum);
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    y[blockIdx.x * n + i] = gpu::from_compute<T>(result_of<T>(logarithm, element(i), stats.max, scale));
}

template <class T>
__global__ void __launch_bounds__(512)
    loop_backward(bool logarithm, const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx,
                  std::int64_t n, compute_t<T> factor) {
  using C = compute_t<T>;
  __shared__ C memory[32];
  const std::int64_t offset = blockIdx.x * n;
  C sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    sum += gpu::to_compute(g[offset + i]) * (logarithm ? C(1) : gpu::to_compute(y[offset + i]));
  sum = gpu::block_combine(sum, 0, memory, gpu::Plus{});
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    dx[offset + i] =
        gpu::from_compute<T>(gradient_of<T>(logarithm, static_cast<C>(gpu::to_compute(g[offset + i])),
                                            static_cast<C>(gpu::to_compute(y[offset + i])), sum, factor));
}

// ---- another axis than the last ----

// 32 columns per block, 8 threads to a column. Only the threads of y = 0 know the joined statistics at first.
template <class T>
__global__ void __launch_bounds__(256)
    column_forward(bool logarithm, const T* __restrict__ x, T* __restrict__ y, std::int64_t n,
                   std::int64_t inner, std::int64_t tiles) {
  using C = compute_t<T>;
  __shared__ Stats<C> shared[8][32];
  const std::int64_t column = blockIdx.x % tiles * 32 + threadIdx.x;
  const bool inside = column < inner;
  const std::int64_t offset = blockIdx.x / tiles * n * inner + column;
  Stats<C> stats{kMinusInf<C>, 0};
  if (inside)
    for (std::int64_t r = threadIdx.y; r < n; r += 8)
      stats = join<T>(stats, stats_of<C>(gpu::to_compute(x[offset + r * inner])));
  shared[threadIdx.y][threadIdx.x] = stats;
  __syncthreads();
  stats = shared[0][threadIdx.x];
  for (int i = 1; i < 8; ++i) stats = join<T>(stats, shared[i][threadIdx.x]);
  if (!inside) return;
  const C scale = isinf(stats.max) ? C(NAN) : scale_of(logarithm, stats.sum);
  for (std::int64_t r = threadIdx.y; r < n; r += 8) {
    const C v = gpu::to_compute(x[offset + r * inner]);
    y[offset + r * inner] = gpu::from_compute<T>(result_of<T>(logarithm, v, stats.max, scale));
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    column_backward(bool logarithm, const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx,
                    std::int64_t n, std::int64_t inner, std::int64_t tiles) {
  using C = compute_t<T>;
  __shared__ C shared[8][32];
  const std::int64_t column = blockIdx.x % tiles * 32 + threadIdx.x;
  const bool inside = column < inner;
  const std::int64_t offset = blockIdx.x / tiles * n * inner + column;
  C sum = 0;
  if (inside)
    for (std::int64_t r = threadIdx.y; r < n; r += 8) {
      const std::int64_t at = offset + r * inner;
      sum += gpu::to_compute(g[at]) * (logarithm ? C(1) : gpu::to_compute(y[at]));
    }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = shared[0][threadIdx.x];
  for (int i = 1; i < 8; ++i) sum += shared[i][threadIdx.x];
  if (!inside) return;
  for (std::int64_t r = threadIdx.y; r < n; r += 8) {
    const std::int64_t at = offset + r * inner;
    dx[at] = gpu::from_compute<T>(gradient_of<T>(logarithm, static_cast<C>(gpu::to_compute(g[at])),
                                                 static_cast<C>(gpu::to_compute(y[at])), sum, C(1)));
  }
}

}  // namespace
}  // namespace ct::softmax_kernels
