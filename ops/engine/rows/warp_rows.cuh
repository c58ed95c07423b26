#pragma once

#include <cotangent/ops/engine/rows/rows.cuh>

// The kernels that hold a row in the registers of up to 32 lanes. For the .cu files of softmax and
// masked_softmax.

namespace ct::softmax_kernels {
namespace {

// The most vectors of N elements per lane: of rows of 1024 elements, or of 384 where these come one by one.
template <int N>
constexpr int kMostLoads = N == 1 ? 12 : 32 / N;

template <bool logarithm, class T, int N, int Loads, class Input>
__global__ void __launch_bounds__(128)
    warp_forward(const T* __restrict__ x, T* __restrict__ y, std::int64_t rows, int n, int group,
                 const __grid_constant__ Input input) {
  using C = compute_t<T>;
  using Pack = gpu::Vector<T, N>;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / group) + threadIdx.x / group;
  const bool live = row < rows;  // all lanes take part in the shuffles
  const std::int64_t offset = live ? input.row_offset(row) : 0;
  C v[Loads][N];
  C max = kMinusInf<C>;
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = (lane + i * group) * N;
    if (live && at < n) {
      Pack::load_streaming(x + row * n + at).to_compute(v[i]);
      input(offset, at, v[i]);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) v[i][j] = kMinusInf<C>;
    }
#pragma unroll
    for (int j = 0; j < N; ++j) max = gpu::Larger{}(max, v[i][j]);
  }
  max = gpu::warp_max(max, group);
  if (Input::hides && max == kMinusInf<C>) max = 0;
  C sum = 0;
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const C e = exp_for<T>(v[i][j] - max);
      if (!logarithm) v[i][j] = e;
      // Lanes past the end hold -inf and add 0; where the whole row is -inf, the NaN is wanted.
      sum += e;
    }
  }
  sum = gpu::warp_sum(sum, group);
  const C scale = Input::hides && sum == 0 ? C(0) : scale_of(logarithm, sum);
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = (lane + i * group) * N;
    if (!live || at >= n) continue;
#pragma unroll
    for (int j = 0; j < N; ++j) v[i][j] = logarithm ? v[i][j] - max - scale : v[i][j] * scale;
    Pack::from_compute(v[i]).store(y + row * n + at);
  }
}

template <bool logarithm, class T, int N, int Loads>
__global__ void __launch_bounds__(128)
    warp_backward(const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx, std::int64_t rows,
                  int n, int group, compute_t<T> factor) {
  using C = compute_t<T>;
  using Pack = gpu::Vector<T, N>;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / group) + threadIdx.x / group;
  const bool live = row < rows;
  Pack gs[Loads], ys[Loads];
  C sum = 0;
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = (lane + i * group) * N;
    if (live && at < n) {
      gs[i] = Pack::load_streaming(g + row * n + at);
      ys[i] = Pack::load_streaming(y + row * n + at);
    } else {
      gs[i] = ys[i] = Pack::filled(gpu::from_compute<T>(C(0)));
    }
  }
#pragma unroll
  for (int i = 0; i < Loads; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j)
      sum += gpu::to_compute(gs[i][j]) * (logarithm ? C(1) : gpu::to_compute(ys[i][j]));
  sum = gpu::warp_sum(sum, group);
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = (lane + i * group) * N;
    if (!live || at >= n) continue;
    C out[N];
#pragma unroll
    for (int j = 0; j < N; ++j)
      out[j] = gradient_of<T>(logarithm, gpu::to_compute(gs[i][j]), gpu::to_compute(ys[i][j]), sum, factor);
    Pack::from_compute(out).store(dx + row * n + at);
  }
}

}  // namespace
}  // namespace ct::softmax_kernels
