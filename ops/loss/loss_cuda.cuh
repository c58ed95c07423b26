#pragma once

#include <cotangent/core/cuda/blas.h>
#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/loss/reduction.h>

// Losses that compare two tensors element by element, on a GPU; the twin of loss_cpu.h. A formula has
//
//     __device__ C value(long long i, C x, C t) const;
//     __device__ void gradient(long long i, C x, C t, C& dx, C& dt) const;
//
// Forward with a reduction is one launch of one block for small tensors; beyond that every block writes one
// partial sum and a second launch adds them up in their order. Backward is one launch for both gradients.

namespace ct::loss {

inline constexpr int kThreads = 256;
inline constexpr int kReduceThreads = 512;
inline constexpr long long kOneBlock =
    32768;  // up to so many elements one block is quicker than two launches
inline constexpr long long kBlocks = 1024;

/// The number of blocks of a sum over n elements. It depends on n alone: so do the order of the additions and
/// the bits of the sum.
inline unsigned sum_blocks(long long n) {
  const long long wanted = n <= kOneBlock ? 1 : gpu::ceil_div(n, kOneBlock / 4);
  return static_cast<unsigned>(wanted < kBlocks ? wanted : kBlocks);
}

template <class T, class F>
__global__ void __launch_bounds__(kThreads) map_kernel(const T* x, const T* t, T* out, long long n, F f) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    out[i] = gpu::from_compute<T>(f.value(i, gpu::to_compute(x[i]), gpu::to_compute(t[i])));
}

// Calls body(i, x, t) for this thread's share of the elements, 16 bytes at a time where both tensors are `aligned`.
template <class T, class Body>
__device__ __forceinline__ void for_pairs(const T* x, const T* t, long long n, bool aligned, Body&& body) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  using Vec = gpu::Packed<T>;
  const long long vectors = aligned ? n / Vec::size : 0;
  for (long long v = first; v < vectors; v += step) {
    const Vec a = Vec::load_streaming(x + v * Vec::size), b = Vec::load_streaming(t + v * Vec::size);
#pragma unroll
    for (int q = 0; q < Vec::size; ++q) body(v * Vec::size + q, gpu::to_compute(a[q]), gpu::to_compute(b[q]));
  }
  for (long long i = vectors * Vec::size + first; i < n; i += step)
    body(i, gpu::to_compute(x[i]), gpu::to_compute(t[i]));
}

template <class T, class F>
__global__ void __launch_bounds__(kReduceThreads)
    sum_kernel(const T* x, const T* t, long long n, bool aligned, F f, compute_t<T> divisor,
               compute_t<T>* partial, T* out) {
  using C = compute_t<T>;
  C sum = 0;
  for_pairs(x, t, n, aligned, [&](long long i, C a, C b) { sum += f.value(i, a, b); });
  sum = gpu::block_sum(sum);
  if (threadIdx.x != 0) return;
  if (partial)
    partial[blockIdx.x] = sum;
  else
    *out = gpu::from_compute<T>(sum / divisor);
}

template <class T>
__global__ void finish_kernel(const compute_t<T>* partial, int count, compute_t<T> divisor, T* out) {
  compute_t<T> sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
  sum = gpu::block_sum(sum);
  if (threadIdx.x == 0) *out = gpu::from_compute<T>(sum / divisor);
}

template <class T, class F>
void pointwise_forward(const char* op, const T* x, const T* t, long long n, Reduction reduction, T* out,
                       const F& f) {
  using C = compute_t<T>;
  if (reduction == Reduction::none)
    return gpu::launch(op, map_kernel<T, F>, gpu::grid_stride_blocks(n, kThreads), kThreads, 0, x, t, out, n,
                       f);
  const bool aligned = gpu::is_aligned(x, 16) && gpu::is_aligned(t, 16);
  const unsigned blocks = sum_blocks(n);
  const gpu::Workspace workspace(blocks > 1 ? blocks * sizeof(C) : 0);
  C* partial = static_cast<C*>(workspace.data());
  const C divisor = reduction == Reduction::mean ? static_cast<C>(n) : C(1);
  gpu::launch(op, sum_kernel<T, F>, blocks, kReduceThreads, 0, x, t, n, aligned, f, divisor, partial, out);
  if (blocks > 1) gpu::launch(op, finish_kernel<T>, 1, kReduceThreads, 0, partial, blocks, divisor, out);
}

template <class T, class F>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(const T* x, const T* t, const T* g, bool each, compute_t<T> divisor, long long n, T* dx,
                    T* dt, F f) {
  using C = compute_t<T>;
  const C common = each ? C(0) : gpu::to_compute(*g) / divisor;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const C scale = each ? gpu::to_compute(g[i]) : common;
    C px, pt;
    f.gradient(i, gpu::to_compute(x[i]), gpu::to_compute(t[i]), px, pt);
    if (dx) dx[i] = gpu::from_compute<T>(scale * px);
    if (dt) dt[i] = gpu::from_compute<T>(scale * pt);
  }
}

/// `g` holds one cotangent per element for Reduction::none, else a single one. dx or dt may be null.
template <class T, class F>
void pointwise_backward(const char* op, const T* x, const T* t, const T* g, long long n, Reduction reduction,
                        T* dx, T* dt, const F& f) {
  const compute_t<T> divisor = reduction == Reduction::mean ? static_cast<compute_t<T>>(n) : compute_t<T>(1);
  gpu::launch(op, gradient_kernel<T, F>, gpu::grid_stride_blocks(n, kThreads), kThreads, 0, x, t, g,
              reduction == Reduction::none, divisor, n, dx, dt, f);
}

// ---- sums of rows with weights ---------------------------------------------------------------------------

/// Where a kernel leaves its sum of losses and of weights: one pair per block in `partial`, or, if it has a
/// single block, the result.
template <class T>
struct RowSums {
  using C = compute_t<T>;
  C* partial = nullptr;
  bool mean = false;
  T* out = nullptr;
  C* weight_out = nullptr;  // may be null

  /// To be called by all threads of the block with what they have summed.
  __device__ __forceinline__ void finish(C total, C weights) const {
    total = gpu::block_sum(total);
    weights = gpu::block_sum(weights);
    if (threadIdx.x != 0) return;
    if (partial) {
      partial[2 * blockIdx.x] = total;
      partial[2 * blockIdx.x + 1] = weights;
    } else {
      write(total, weights);
    }
  }
  __device__ __forceinline__ void write(C total, C weights) const {
    const C by = mean ? mean_divisor(weights) : C(1);
    *out = gpu::from_compute<T>(total / by);
    if (weight_out) *weight_out = by;
  }
};

template <class T>
__global__ void finish_rows_kernel(const compute_t<T>* partial, int count, RowSums<T> sums) {
  using C = compute_t<T>;
  C total = 0, weights = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    total += partial[2 * i];
    weights += partial[2 * i + 1];
  }
  sums.finish(total, weights);
}

/// Runs `launch(blocks, sums)` and, if there is more than one block, a second launch that adds up what they
/// left. With `reduce` false nothing is summed.
template <class T, class Launch>
void reduce_rows(const char* op, unsigned blocks, bool reduce, bool mean, T* out, compute_t<T>* weight_out,
                 Launch&& launch) {
  using C = compute_t<T>;
  RowSums<T> sums{nullptr, mean, out, weight_out};
  if (!reduce || blocks == 1) return launch(blocks, sums);
  const gpu::Workspace workspace(2 * blocks * sizeof(C));
  C* partial = static_cast<C*>(workspace.data());
  RowSums<T> into = sums;
  into.partial = partial;
  launch(blocks, into);
  gpu::launch(op, finish_rows_kernel<T>, 1, kReduceThreads, 0, partial, blocks, sums);
}

}  // namespace ct::loss
