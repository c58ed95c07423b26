#pragma once

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/softmax/cuda_general_internal.cuh>
#include <cotangent/ops/softmax/cuda_rows_internal.cuh>

// Which kernel a softmax takes. For the .cu files of softmax and masked_softmax.

namespace ct::softmax_kernels {
namespace {

// What a kernel is chosen for. Both directions choose alike; `launch` has one member per kernel shape.
template <class T, class Launch>
void choose(const char* op, const Extents& e, bool aligned, const Launch& launch) {
  constexpr int n = gpu::Packed<T>::size;
  if (e.inner > 1) {
    const std::int64_t tiles = gpu::ceil_div(e.inner, 32);
    return launch.columns(dim3(gpu::blocks_for(op, e.outer * tiles, 1)), dim3(32, 8), tiles);
  }
  const bool packs = aligned && e.n % n == 0;
  if (e.n <= 1024) {
    // As few elements per lane as fill the vectors, then as many lanes as the row needs.
    const std::int64_t units = packs && e.n > 32 ? e.n / n : e.n;
    const bool vectors = packs && e.n > 32;
    const int per_lane = units <= 32 ? 1 : static_cast<int>(gpu::ceil_div(units, 32));
    int group = 1;
    while (group < 32 && group < units) group *= 2;
    const dim3 grid(gpu::blocks_for(op, e.outer, 128 / group));
    if (vectors) return launch.template warps<n>(grid, per_lane, group);
    return launch.template warps<1>(grid, per_lane, group);
  }
  if constexpr (!std::is_same_v<T, double>) {
    const std::int64_t loads = e.n / n;
    const int most = cuda_properties(current_cuda_device()).compute_major >= 9 ? 8 : 1;
    if (packs && loads <= most * 512 * 8) {
      int cluster = 1;
      while (cluster < most && cluster * 512 * 4 < loads) cluster *= 2;
      const int per_thread = cluster * 512 * 4 >= loads ? 4 : 8;
      const std::int64_t threads = gpu::ceil_div(loads, cluster * per_thread);
      return launch.clusters(e.outer, static_cast<unsigned>(gpu::ceil_div(threads, 32) * 32), cluster,
                             per_thread, static_cast<int>(loads));
    }
  }
  launch.loop(dim3(gpu::blocks_for(op, e.outer, 1)), dim3(512));
}

}  // namespace
}  // namespace ct::softmax_kernels
