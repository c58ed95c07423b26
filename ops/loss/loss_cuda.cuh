#pragma once

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/workspace.h>
#include <cotangent/core/op/around.h>
#include <cotangent/ops/loss/classes/class_loss_internal.h>
#include <cotangent/ops/loss/reduction.h>

// Shared by the kernels of losses on a GPU: sums with their weights.
//
// Forward with a reduction is one launch of one block for small tensors; beyond that every block writes one
// partial sum and a second launch adds them up in their order.

namespace ct::loss {

inline constexpr int kThreads = 256;
inline constexpr int kReduceThreads = 512;
inline constexpr long long kOneBlock =
    32768;  // up to so many elements one block is quicker than two launches
inline constexpr long long kBlocks = 1024;

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

#ifndef CT_KERNEL_TEXT  // which has no code of the host
/// The number of blocks of a sum over n elements. It depends on n alone: so do the order of the additions and
/// the bits of the sum.
inline unsigned sum_blocks(long long n) {
  const long long wanted = n <= kOneBlock ? 1 : gpu::ceil_div(n, kOneBlock / 4);
  return static_cast<unsigned>(wanted < kBlocks ? wanted : kBlocks);
}

/// Adds up the pairs that `count` blocks have left, in their order.
template <class T>
void finish_sums(const char* op, const compute_t<T>* partial, unsigned count, const Sums<T>& sums);

/// Runs `launch(blocks, sums)` and, if there is more than one block, a second launch that adds up what they
/// left. With `reduce` false nothing is summed. A launch that is only asked for (core/op/around.h) has no second one.
template <class T, class Launch>
void reduce(const char* op, unsigned blocks, bool reduce, const Sums<T>& sums, const detail::Around* around,
            Launch&& launch) {
  using C = compute_t<T>;
  if (!reduce || blocks == 1 || (around && around->ask != detail::Around::Ask::run))
    return launch(blocks, sums);
  const gpu::Workspace workspace(2 * blocks * sizeof(C));
  Sums<T> into = sums;
  into.partial = static_cast<C*>(workspace.data());
  launch(blocks, into);
  finish_sums<T>(op, into.partial, blocks, sums);
}

#endif

}  // namespace ct::loss
