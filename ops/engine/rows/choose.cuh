#pragma once

#include <cotangent/core/op/around.h>
#include <cotangent/ops/engine/rows/cluster.cuh>
#include <cotangent/ops/engine/rows/share.cuh>

// Choice of an op's kernel for rows of a given shape. For .cu files.

namespace ct::rows {

/// The most vectors of N elements per lane: of rows of 1024 elements, or of 384 where these come one by one.
template <int N>
inline constexpr int kMostLoads = N == 1 ? 12 : 32 / N;

namespace detail {
// Whether the row fits into the registers of a cluster; then it runs.
template <class Kernels, class T, class Call>
bool run_in_clusters(const char* op, const Call& call, const Extents& e) {
  constexpr int threads = kClusterWarps * 32, each = 8 / Kernels::kInputs;
  const std::int64_t loads = e.n / gpu::Vector<T>::size;
  // The exchange between blocks is compiled for sm_90 and later.
  const int largest =
      gpu::compiled_arch<Kernels::template cluster<8>()>(op) >= kClusterArch ? kLargestCluster : 1;
  // Two rows of the most that a thread can hold are 128 KiB of shared memory, which not every GPU has.
  const bool roomy = cuda_properties(current_cuda_device()).shared_bytes_per_block >= 2 * threads * 8 * 16;
  const int most = largest > 1 && roomy ? 8 : each;
  if (loads > largest * threads * most) return false;
  // `each` vectors to a thread, 4 or 8, unless the row is short or too long for that.
  int per_thread = loads <= 1024 ? 4 : each, cluster = 1;
  while (cluster < largest && cluster * threads * per_thread < loads) cluster *= 2;
  if (cluster * threads * per_thread < loads) per_thread = most;
  const std::int64_t used = gpu::ceil_div(gpu::ceil_div(loads, cluster * per_thread), 32) * 32;
  with_loads<4, 8>(per_thread, [&]<int kLoads>(std::integral_constant<int, kLoads>) {
    launch_clusters<Kernels::template cluster<kLoads>()>(
        op, call, e, static_cast<unsigned>(used), cluster,
        static_cast<std::size_t>(Kernels::kInputs * used * kLoads * 16));
  });
  return true;
}
}  // namespace detail

/// Runs one of an op's kernels, whose parameters are (Call, Extents, int). Kernels has
/// - lanes<N, Loads>: a row in up to Loads vectors of each of a group of lanes, their number the last parameter; see
///   LaneShare. blockDim = 128.
/// - cluster<Loads>, where kClusters says so: a row in the registers of a cluster of as many blocks as the last
///   parameter says; see walk_in_clusters(). kInputs is how many tensors are read.
/// - loop: a row of any length and stride; see LoopShare. The last parameter is 0.
/// f64 has loop alone. `aligned` says whether all tensors begin at a multiple of 16 bytes. Within formulas where there is `around`,
/// for kernels with text<N, Loads>(): lanes alone, and false for other shapes.
template <class T, class Kernels, class Call>
bool run(const char* op, Kernels, const Call& call, const Extents& e, bool aligned,
         const ct::detail::Around* around = nullptr) {
  if constexpr (gpu::kFastShapes<T>) {
    constexpr int n = gpu::Vector<T>::size;
    const bool packs = aligned && e.n % n == 0 && e.inner == 1;
    // Takes as few elements per lane as fill the vectors, then as many lanes as the row needs.
    const bool vectors = packs && e.n > 32;
    const std::int64_t units = vectors ? e.n / n : e.n;
    if (e.inner == 1 && units <= 32 * (vectors ? kMostLoads<n> : kMostLoads<1>)) {
      int group = 1;
      while (group < 32 && group < units) group *= 2;
      const unsigned blocks = gpu::blocks_for(op, e.outer, 128 / group);
      bool done = true;
      const auto go = [&]<int N, int kLoads>(std::integral_constant<int, N>,
                                             std::integral_constant<int, kLoads>) {
        if (!around)
          return gpu::launch(op, Kernels::template lanes<N, kLoads>(), blocks, 128, 0, call, e, group);
        const InLanes<Call> all{call, e, group};
        if constexpr (requires { Kernels::template text<N, kLoads>(); })
          done = around->launch(op, Kernels::template text<N, kLoads>(), blocks, 128, 1, 0, &all, sizeof all);
      };
      const std::int64_t loads = gpu::ceil_div(units, group);
      if (vectors)
        with_loads<1, 4, kMostLoads<n>>(
            loads, [&](auto constant) { go(std::integral_constant<int, n>{}, constant); });
      else
        with_loads<1, kMostLoads<1>>(loads,
                                     [&](auto constant) { go(std::integral_constant<int, 1>{}, constant); });
      return done;
    }
    if constexpr (Kernels::kClusters)
      if (!around && packs && detail::run_in_clusters<Kernels, T>(op, call, e)) return true;
  }
  if (!around) launch_loop(op, Kernels::loop, e, call, e, 0);
  return !around;
}

}  // namespace ct::rows
