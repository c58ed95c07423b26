#pragma once

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>
#include <cotangent/ops/loss/class_loss_internal.h>
#include <cotangent/ops/loss/reduction.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Shared kernels of losses on a GPU: sums with their weights, and losses that compare two tensors element by element;
// the twin of loss_cpu.h.
//
// Forward with a reduction is one launch of one block for small tensors; beyond that every block writes one
// partial sum and a second launch adds them up in their order.

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

/// Destination of a kernel's sum of losses and of weights: one pair per block in `partial`, or, if it has a
/// single block, the result.
template <class T>
struct Sums {
  using C = compute_t<T>;
  C* partial = nullptr;
  C divisor = 1;  // 0: what the weights add up to
  T* out = nullptr;
  C* weight_out = nullptr;  // may be null

  /// Called by all threads of the block with their sums.
  __device__ __forceinline__ void finish(C total, C weights) const {
    total = gpu::block_sum(total);
    weights = gpu::block_sum(weights);
    if (threadIdx.x != 0) return;
    if (partial) {
      partial[2 * blockIdx.x] = total;
      partial[2 * blockIdx.x + 1] = weights;
    } else {
      const C by = divisor != 0 ? divisor : mean_divisor(weights);
      *out = gpu::from_compute<T>(total / by);
      if (weight_out) *weight_out = by;
    }
  }
};

/// Adds up the pairs that `count` blocks have left, in their order.
template <class T>
void finish_sums(const char* op, const compute_t<T>* partial, unsigned count, const Sums<T>& sums);

/// Runs `launch(blocks, sums)` and, if there is more than one block, a second launch that adds up what they
/// left. With `reduce` false nothing is summed.
template <class T, class Launch>
void reduce(const char* op, unsigned blocks, bool reduce, const Sums<T>& sums, Launch&& launch) {
  using C = compute_t<T>;
  if (!reduce || blocks == 1) return launch(blocks, sums);
  const gpu::Workspace workspace(2 * blocks * sizeof(C));
  Sums<T> into = sums;
  into.partial = static_cast<C*>(workspace.data());
  launch(blocks, into);
  finish_sums<T>(op, into.partial, blocks, sums);
}

// The sum of loss(i, x, t). Elements are read 16 bytes at a time as far as `vectors` says, which is 0 where the tensors
// are not aligned.
template <class T, class Loss>
__global__ void __launch_bounds__(kReduceThreads)
    sum_kernel(const T* x, const T* t, long long n, long long vectors, Loss loss, Sums<T> sums) {
  using C = compute_t<T>;
  using X = elementwise::Lane<C>;
  using Vec = gpu::Vector<T>;
  C sum = 0;
  const auto add = [&](long long i, T a, T b) {
    sum += loss(i, X(gpu::to_compute(a)), X(gpu::to_compute(b))).v;
  };
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long long v = first; v < vectors; v += step) {
    const Vec a = Vec::load_streaming(x + v * Vec::size), b = Vec::load_streaming(t + v * Vec::size);
#pragma unroll
    for (int q = 0; q < Vec::size; ++q) add(v * Vec::size + q, a[q], b[q]);
  }
  for (long long i = vectors * Vec::size + first; i < n; i += step) add(i, x[i], t[i]);
  sums.finish(sum, 0);
}

/// The forward kernel of a loss by formula F. loss_of(TypeTag<T>) gives its losses as they are summed.
template <class F, class LossOf>
void forward_cuda(const Forward& f, Reduction reduction, const LossOf& loss_of) {
  if (reduction == Reduction::none) return elementwise::forward_cuda<F, true, false>(f);
  visit_floating(f.op.name, f.out().dtype(), [&]<class T>(TypeTag<T> type) {
    const T *x = f.in(0).data<T>(), *t = f.in(1).data<T>();
    const long long n = f.in(0).numel();
    const long long vectors = gpu::is_aligned(x, 16) && gpu::is_aligned(t, 16) ? n / gpu::Vector<T>::size : 0;
    const auto loss = loss_of(type);
    const compute_t<T> divisor = reduction == Reduction::mean ? static_cast<compute_t<T>>(n) : 1;
    reduce<T>(f.op.name, sum_blocks(n), true, {nullptr, divisor, f.out().data<T>()},
              [&](unsigned blocks, const Sums<T>& sums) {
                gpu::launch(f.op.name, sum_kernel<T, std::remove_cv_t<decltype(loss)>>, blocks,
                            kReduceThreads, 0, x, t, n, vectors, loss, sums);
              });
  });
}
/// A loss without weights, as it is summed.
template <class F>
struct Unweighted {
  template <class X>
  __device__ __forceinline__ X operator()(long long, X x, X t) const {
    return F::eval(x, t, X(0), X(0));
  }
};
template <class F>
void forward_cuda(const Forward& f, Reduction reduction) {
  forward_cuda<F>(f, reduction, [](auto) { return Unweighted<F>{}; });
}

/// The backward kernel, from formula F of g, x, t and what else there is, with p = 1, or 1 / n for a mean.
template <class F>
void backward_cuda(const Backward& b, Reduction reduction) {
  const Shape& shape = b.in_meta(0).shape;
  const double p = reduction == Reduction::mean ? 1 / static_cast<double>(numel(shape)) : 1;
  elementwise::joint_gradients<F>(b, b.grad(), shape, [&](auto outputs, auto inputs) {
    elementwise::run_cuda(b.op.name, elementwise::value_kernels<F, true, false>(), outputs, inputs, {p, 0});
  });
}

}  // namespace ct::loss
