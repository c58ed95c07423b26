#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/rows/extents.h>

// A thread's share of a row: as many vectors as its registers hold, or any number of elements. For .cu files.

namespace ct::rows {

/// Vectors of N elements, at most Loads of them: the first begins at element `first`, each next one `step` on, all of
/// them before n.
template <int N, int Loads>
struct Share {
  int first, step, n;

  /// Calls f(i, where the vector begins in the row) for i = 0, 1, ...
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll
    for (int i = 0; i < Loads; ++i)
      if (first + i * step < n) f(i, first + i * step);
  }
  /// The vectors of a row that begins at `row` and will not be read again soon.
  template <class T>
  __device__ __forceinline__ void load(gpu::Vector<T, N> (&v)[Loads], const T* row) const {
    each([&](int i, int at) { v[i] = gpu::Vector<T, N>::load_streaming(row + at); });
  }
};

/// The share of a lane where `group` lanes hold a row. The rows after the last are empty: all lanes take part in shuffles.
template <int N, int Loads>
struct LaneShare : Share<N, Loads> {
  std::int64_t row, start;

  __device__ __forceinline__ LaneShare(const Extents& e, int group)
      : row(static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / group) + threadIdx.x / group) {
    const int n = static_cast<int>(e.n), lane = static_cast<int>(threadIdx.x) % group;
    Share<N, Loads>::operator=({lane * N, group * N, row < e.outer ? n : 0});
    start = row * n;
  }
};

/// The one argument of such a kernel in a text.
template <class Call>
struct InLanes {
  Call call;
  Extents extents;
  int group;
};

/// Every `step`-th element of a row of any length and stride. Rows of neighbours belong to a block each; of other rows
/// 32 neighbours do, and the threads of one threadIdx.x share one. blockDim = (32, up to kMostWarps).
struct LoopShare {
  static constexpr int kMostWarps = 16, kColumnWarps = 8;
  std::int64_t start, first, step, n, inner;

  __device__ __forceinline__ explicit LoopShare(const Extents& e) : n(e.n), inner(e.inner) {
    if (inner == 1) {
      start = blockIdx.x * n;
      first = threadIdx.y * 32 + threadIdx.x, step = blockDim.y * 32;
    } else {
      const std::int64_t tiles = gpu::ceil_div(inner, 32), column = blockIdx.x % tiles * 32 + threadIdx.x;
      start = blockIdx.x / tiles * n * inner + column;
      first = threadIdx.y, step = blockDim.y;
      if (column >= inner) n = 0;
    }
  }
  /// Calls f(place in the row, place in the tensor); four times without a branch between, so that as many elements are
  /// on their way at once.
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
    std::int64_t i = first;
    for (; i + 3 * step < n; i += 4 * step) {
#pragma unroll
      for (int u = 0; u < 4; ++u) f(i + u * step, start + (i + u * step) * inner);
    }
#pragma unroll 1
    for (; i < n; i += step) f(i, start + i * inner);
  }
  /// One value per thread combined over the row, in all of its threads; to be called by all threads of the block.
  template <class V, class Op>
  __device__ __forceinline__ V combine(V value, Op op) const {
    __shared__ V slots[kMostWarps][32];
    if (inner == 1) value = gpu::warp_combine(value, op);
    __syncthreads();  // an earlier call may still be reading
    slots[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    value = slots[0][threadIdx.x];
    for (unsigned i = 1; i < blockDim.y; ++i) value = op(value, slots[i][threadIdx.x]);
    return value;
  }
};

#ifndef CT_KERNEL_TEXT  // which has no code of the host
/// Launches a kernel whose blocks have a LoopShare each, for all rows.
template <class... Params, class... Args>
void launch_loop(const char* op, void (*kernel)(Params...), const Extents& e, Args&&... args) {
  const std::int64_t tiles = e.inner > 1 ? gpu::ceil_div(e.inner, 32) : 1, warps = gpu::ceil_div(e.n, 32);
  const std::int64_t used =
      e.inner > 1 ? LoopShare::kColumnWarps : std::min<std::int64_t>(LoopShare::kMostWarps, warps);
  gpu::launch(op, kernel, gpu::blocks_for(op, e.outer * tiles, 1), dim3(32, static_cast<unsigned>(used)), 0,
              std::forward<Args>(args)...);
}

/// Calls go(the first of the constants that is at least `loads`, else the last).
template <int kFirst, int... kMore, class Go>
void with_loads(std::int64_t loads, const Go& go) {
  if constexpr (sizeof...(kMore) > 0)
    if (loads > kFirst) return with_loads<kMore...>(loads, go);
  go(std::integral_constant<int, kFirst>{});
}
#endif

}  // namespace ct::rows
