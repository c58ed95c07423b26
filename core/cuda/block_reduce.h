#pragma once

#include <type_traits>

// One value per thread combined over a warp, or over a block: sums, maxima, and other operations that are associative but
// for rounding. For .cu files. The order depends on the number of threads alone, so the bits are the same in every run.

namespace ct::gpu {

struct Plus {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return a + b;
  }
};
/// Not for NaN: which of two it passes on is left open.
struct Larger {
  template <class C>
  __device__ __forceinline__ C operator()(C a, C b) const {
    return b > a ? b : a;
  }
};

/// The value of the lane whose number differs by the bits of `offset`. Structs have a friend of this name.
template <class C>
__device__ __forceinline__ C shuffle_xor(C value, int offset, int width) {
  return __shfl_xor_sync(~0u, value, offset, width);
}

/// Over each group of `width` neighbouring lanes (a power of two), in all of them.
template <class C, class Op>
__device__ __forceinline__ C warp_combine(C value, Op op, int width = 32) {
#pragma unroll
  for (int offset = width / 2; offset > 0; offset /= 2) value = op(value, shuffle_xor(value, offset, width));
  return value;
}
template <class C>
__device__ __forceinline__ C warp_sum(C value, int width = 32) {
  return warp_combine(value, Plus{}, width);
}
template <class C>
__device__ __forceinline__ C warp_max(C value, int width = 32) {
  return warp_combine(value, Larger{}, width);
}

/// Over a block of whole warps, in all of its threads, which must all call it. `slots` holds 32 values and may be used
/// again after the next __syncthreads.
template <class C, class Op>
__device__ __forceinline__ C block_combine(C value, std::type_identity_t<C> neutral, C* slots, Op op) {
  value = warp_combine(value, op);
  const int warps = static_cast<int>(blockDim.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (warps == 1) return value;
  if (lane == 0) slots[threadIdx.x / 32] = value;
  __syncthreads();
  return warp_combine(lane < warps ? slots[lane] : neutral, op);
}

/// The same with memory of its own, for one call after the other.
template <class C, class Op>
__device__ C block_combine(C value, std::type_identity_t<C> neutral, Op op) {
  __shared__ C slots[32];
  __syncthreads();  // an earlier call may still be reading
  return block_combine(value, neutral, slots, op);
}
template <class C>
__device__ C block_sum(C value) {
  return block_combine(value, 0, Plus{});
}

}  // namespace ct::gpu
