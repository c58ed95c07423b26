#include <algorithm>
#include <atomic>
#include <cstddef>
#include <type_traits>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/softmax/rows_internal.h>
#include <cotangent/ops/engine/rows/choose.cuh>

// softmax and log_softmax on CUDA: each element is read once and written once.
//
// - warp_*: rows of up to 1024 elements, or of 384 if they are not whole 16-byte vectors. A group of 1 to 32
//   lanes holds a row in registers.
// - cluster_*: longer rows of whole 16-byte vectors. The row lies in the registers of a block, or of a
//   cluster of 2 to 8 blocks that exchange their maxima and sums through distributed shared memory, while
//   the next one is on its way to shared memory.
// - loop_*: what is left (odd or huge rows). The statistics in one pass, the result in a second, out of L2.
// - column_*: another axis than the last; 32 neighbouring columns per block.
//
// 16-bit types are computed in float; elements stay packed in registers and are converted where they are
// used. f64 has loop_* and column_* alone. Backward has the same shapes with y and g in place of x.

namespace ct::softmax_kernels {
namespace {

// The most blocks that may share a row: the exchange between them is compiled for sm_90 and later.
template <auto kernel>
int largest_cluster_of(const char* op) {
  return gpu::compiled_arch<kernel>(op) >= kClusterArch ? kLargestCluster : 1;
}

// How many clusters of this shape can be resident; asked once per kernel, device and shape.
template <auto kernel>
int resident_clusters(const char* op, const cudaLaunchConfig_t& config, int cluster) {
  const int threads = static_cast<int>(config.blockDim.x);
  // The kernels are compiled for 1024 threads on a multiprocessor.
  if (cluster == 1) return gpu::multiprocessors() * (1024 / threads);
  static std::atomic<int> known[kMaxCudaDevices][kLargestCluster + 1][kClusterWarps + 1];
  std::atomic<int>& entry = known[current_cuda_device()][cluster][threads / 32];
  int clusters = entry.load(std::memory_order_relaxed);
  if (clusters == 0) {
    CT_CUDA_OP(op, cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
    clusters = std::max(clusters, 1);
    entry.store(clusters, std::memory_order_relaxed);
  }
  return clusters;
}

// Launches a kernel in clusters of blocks that walk over the rows, with the same number of rows for each.
template <auto kernel, class... Args>
void launch_clusters(const char* op, std::int64_t rows, unsigned threads, int cluster, std::size_t smem,
                     Args... args) {
  if (smem > 48 * 1024) gpu::detail::allow_dynamic_smem(op, reinterpret_cast<const void*>(kernel), smem);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = smem;
  config.stream = gpu::native_stream();
  config.attrs = &attribute;
  config.numAttrs = cluster > 1 ? 1 : 0;
  const std::int64_t each = gpu::ceil_div(rows, resident_clusters<kernel>(op, config, cluster));
  config.gridDim = dim3(static_cast<unsigned>(gpu::ceil_div(rows, each) * cluster));
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, args...);
  if (status != cudaSuccess) gpu::throw_cuda_error(op, "the kernel launch", status);
}

template <bool logarithm, class T>
struct LaunchForward {
  const char* op;
  const T* x;
  T* y;
  Extents e;

  template <int N>
  void warps(dim3 grid, int loads, int group) const {
    const auto go = [&](auto kernel) {
      gpu::launch(op, kernel, grid, dim3(128), 0, x, y, e.outer, e.n, group, Plain{});
    };
    if (loads == 1) return go(warp_forward<logarithm, T, N, 1, Plain>);
    if constexpr (N == 4)
      if (loads <= 4) return go(warp_forward<logarithm, T, N, 4, Plain>);
    go(warp_forward<logarithm, T, N, kMostLoads<N>, Plain>);
  }
  int largest_cluster() const { return largest_cluster_of<cluster_forward<logarithm, T, 8>>(op); }
  void clusters(std::int64_t rows, unsigned threads, int cluster, int per_thread, int packs) const {
    const auto go = [&]<int Loads>(std::integral_constant<int, Loads>) {
      launch_clusters<cluster_forward<logarithm, T, Loads>>(op, rows, threads, cluster, threads * Loads * 16,
                                                            x, y, rows, packs, cluster);
    };
    if (per_thread == 4) return go(std::integral_constant<int, 4>{});
    go(std::integral_constant<int, 8>{});
  }
  void loop(dim3 grid, dim3 block) const {
    gpu::launch(op, loop_forward<T, Plain>, grid, block, 0, logarithm, x, y, e.n, Plain{});
  }
  void columns(dim3 grid, dim3 block, std::int64_t tiles) const {
    gpu::launch(op, column_forward<T>, grid, block, 0, logarithm, x, y, e.n, e.inner, tiles);
  }
};

template <bool logarithm, class T>
struct LaunchBackward {
  const char* op;
  const T *g, *y;
  T* dx;
  Extents e;
  compute_t<T> factor;  // of rows only

  template <int N>
  void warps(dim3 grid, int loads, int group) const {
    const auto go = [&](auto kernel) {
      gpu::launch(op, kernel, grid, dim3(128), 0, g, y, dx, e.outer, e.n, group, factor);
    };
    if (loads == 1) return go(warp_backward<logarithm, T, N, 1>);
    if constexpr (N == 4)
      if (loads <= 4) return go(warp_backward<logarithm, T, N, 4>);
    go(warp_backward<logarithm, T, N, kMostLoads<N>>);
  }
  int largest_cluster() const { return largest_cluster_of<cluster_backward<logarithm, T, 8>>(op); }
  void clusters(std::int64_t rows, unsigned threads, int cluster, int per_thread, int packs) const {
    const auto go = [&]<int Loads>(std::integral_constant<int, Loads>) {
      launch_clusters<cluster_backward<logarithm, T, Loads>>(
          op, rows, threads, cluster, 2 * threads * Loads * 16, g, y, dx, rows, packs, cluster, factor);
    };
    if (per_thread == 4) return go(std::integral_constant<int, 4>{});
    go(std::integral_constant<int, 8>{});
  }
  void loop(dim3 grid, dim3 block) const {
    gpu::launch(op, loop_backward<T>, grid, block, 0, logarithm, g, y, dx, e.n, factor);
  }
  void columns(dim3 grid, dim3 block, std::int64_t tiles) const {
    gpu::launch(op, column_backward<T>, grid, block, 0, logarithm, g, y, dx, e.n, e.inner, tiles);
  }
};

}  // namespace

template <bool logarithm>
void forward_cuda(const Forward& f) {
  with_forward(f, [&]<class T>(const T* x, T* y, const Extents& e) {
    const bool aligned = gpu::is_aligned(x, 16) && gpu::is_aligned(y, 16);
    choose<T, 8>(f.op.name, e, aligned, LaunchForward<logarithm, T>{f.op.name, x, y, e});
  });
}

template <bool logarithm>
void backward_cuda(const Backward& b) {
  with_backward(b, [&]<class T>(const T* g, const T* y, T* dx, const Extents& e) {
    const bool aligned = gpu::is_aligned(g, 16) && gpu::is_aligned(y, 16) && gpu::is_aligned(dx, 16);
    choose<T, 4>(b.op.name, e, aligned, LaunchBackward<logarithm, T>{b.op.name, g, y, dx, e, 1});
  });
}

void gradient_cuda(const char* op, const Tensor& g, const Tensor& y, const Tensor& dx, double factor) {
  with_gradient(op, g, y, dx, [&]<class T>(const T* from, const T* of, T* to, const Extents& e) {
    const bool aligned = gpu::is_aligned(from, 16) && gpu::is_aligned(of, 16) && gpu::is_aligned(to, 16);
    choose<T, 4>(op, e, aligned,
                 LaunchBackward<false, T>{op, from, of, to, e, static_cast<compute_t<T>>(factor)});
  });
}

}  // namespace ct::softmax_kernels

CT_KERNELS(cuda, softmax,
           {"softmax", softmax_kernels::forward_cuda<false>, softmax_kernels::backward_cuda<false>},
           {"log_softmax", softmax_kernels::forward_cuda<true>, softmax_kernels::backward_cuda<true>})
