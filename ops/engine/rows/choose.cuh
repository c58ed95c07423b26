#pragma once

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/rows/cluster_rows.cuh>
#include <cotangent/ops/engine/rows/general_rows.cuh>
#include <cotangent/ops/engine/rows/warp_rows.cuh>

// Which kernel a softmax takes. For the .cu files of softmax and masked_softmax.

namespace ct::softmax_kernels {
namespace {

// What a kernel is chosen for. `launch` has one member per kernel shape, and says how many blocks of the kernel for
// long rows may form a cluster. Of a long row a thread takes kPerThread vectors, 4 or 8, unless the row is short or
// too long for it. In f64 a row is a block's, whatever its length.
template <class T, int kPerThread, class Launch>
void choose(const char* op, const Extents& e, bool aligned, const Launch& launch) {
  if (e.inner > 1) {
    const std::int64_t tiles = gpu::ceil_div(e.inner, 32);
    return launch.columns(dim3(gpu::blocks_for(op, e.outer * tiles, 1)), dim3(32, 8), tiles);
  }
  if constexpr (gpu::kFastShapes<T>) {
    constexpr int n = gpu::Vector<T>::size;
    const bool packs = aligned && e.n % n == 0;
    // As few elements per lane as fill the vectors, then as many lanes as the row needs.
    const bool vectors = packs && e.n > 32;
    const std::int64_t units = vectors ? e.n / n : e.n;
    if (units <= 32 * (vectors ? kMostLoads<n> : kMostLoads<1>)) {
      const int per_lane = units <= 32 ? 1 : static_cast<int>(gpu::ceil_div(units, 32));
      int group = 1;
      while (group < 32 && group < units) group *= 2;
      const dim3 grid(gpu::blocks_for(op, e.outer, 128 / group));
      if (vectors) return launch.template warps<n>(grid, per_lane, group);
      return launch.template warps<1>(grid, per_lane, group);
    }
    const std::int64_t loads = e.n / n;
    constexpr int threads = kClusterWarps * 32;
    const int largest = launch.largest_cluster();
    // Two rows of the most that a thread can hold are 128 KiB of shared memory, which not every GPU has.
    const bool roomy = cuda_properties(current_cuda_device()).shared_bytes_per_block >= 2 * threads * 8 * 16;
    const int most = largest > 1 && roomy ? 8 : kPerThread;
    if (packs && loads <= largest * threads * most) {
      int per_thread = loads <= 1024 ? 4 : kPerThread, cluster = 1;
      while (cluster < largest && cluster * threads * per_thread < loads) cluster *= 2;
      if (cluster * threads * per_thread < loads) per_thread = most;
      const std::int64_t used = gpu::ceil_div(loads, cluster * per_thread);
      return launch.clusters(e.outer, static_cast<unsigned>(gpu::ceil_div(used, 32) * 32), cluster,
                             per_thread, static_cast<int>(loads));
    }
  }
  const std::int64_t threads = e.n < 512 ? gpu::ceil_div(e.n, 32) * 32 : 512;
  launch.loop(dim3(gpu::blocks_for(op, e.outer, 1)), dim3(static_cast<unsigned>(threads)));
}

}  // namespace
}  // namespace ct::softmax_kernels
