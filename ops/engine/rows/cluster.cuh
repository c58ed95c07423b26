#pragma once

#include <algorithm>
#include <atomic>

#include <cotangent/core/cuda/async_copy.h>
#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/rows/extents.h>

// Rows in the registers of a cluster of 1 to 8 blocks. For .cu files.
//
// The clusters stay and walk over the rows. A thread's share of the next row is on its way to shared memory,
// into slots that no other thread touches, while this row is reduced and stored: the memory is never idle,
// and the row ahead costs no registers.

namespace ct::rows {

inline constexpr int kLargestCluster = 8, kMostBlocks = 16, kClusterWarps = 16;

// Code for older architectures leaves the exchange between blocks out: the host must not launch it in clusters.
#define CT_CLUSTER_ARCH 900
inline constexpr int kClusterArch = CT_CLUSTER_ARCH;

// Combines values over a cluster. Every warp sends its value to all blocks, and a block waits until all have
// reached it. That is counted by an mbarrier rather than found out by a barrier of the cluster, whose release
// waits for everything that the thread wrote and requested before: the stores of the last row, the next row.
struct Exchange {
  float memory[2][kLargestCluster * kClusterWarps];
  std::uint64_t arrived[2];

  // All blocks call both at the start, the requests of the first row between them.
  __device__ __forceinline__ void begin(int cluster) {
#if __CUDA_ARCH__ >= CT_CLUSTER_ARCH
    if (cluster == 1) return;
    if (threadIdx.x == 0) {
      for (int k = 0; k < 2; ++k)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&arrived[k])) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
  }
  __device__ __forceinline__ void ready(int cluster) {
#if __CUDA_ARCH__ >= CT_CLUSTER_ARCH
    if (cluster > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  }

  // Combines one value per thread; all threads get the result. `call` counts the calls: they alternate between two memories.
  // So one may be written while the other is read, and it is written again only after all have sent their values of
  // the call between, that is after all have read it. For the same reason a block may leave after its last call.
  template <class Op>
  __device__ __forceinline__ float combine(float v, float neutral, Op op, int call, int cluster) {
    const int k = call & 1, parity = call >> 1 & 1;
    v = gpu::warp_combine(v, op);
    const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (cluster == 1) {
      if (lane == 0) memory[k][warp] = v;
      __syncthreads();
    } else {
      exchange(v, k, parity, cluster, lane, rank() * warps + warp, warps * cluster * 4);
    }
    v = neutral;
#pragma unroll 1
    for (int i = lane; i < warps * cluster; i += 32) v = op(v, memory[k][i]);
    return gpu::warp_combine(v, op);
  }

  // The block's number in its cluster.
  static __device__ __forceinline__ int rank() {
#if __CUDA_ARCH__ >= CT_CLUSTER_ARCH
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return static_cast<int>(rank);
#else
    return 0;
#endif
  }

 private:
  static __device__ __forceinline__ unsigned address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
  }
  __device__ __forceinline__ void exchange(float v, int k, int parity, int cluster, int lane, int slot,
                                           int bytes) {
#if __CUDA_ARCH__ >= CT_CLUSTER_ARCH
    const unsigned barrier = address(&arrived[k]);
    if (threadIdx.x == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                   : "memory");
    if (lane < cluster)
      asm volatile(
          "{\n.reg .b32 there, count;\n"
          "mapa.shared::cluster.u32 there, %0, %3;\n"
          "mapa.shared::cluster.u32 count, %1, %3;\n"
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [there], %2, [count];\n}" ::"r"(
              address(&memory[k][slot])),
          "r"(barrier), "f"(v), "r"(lane)
          : "memory");
    __syncwarp();
    asm volatile(
        "{\n.reg .pred done;\n"
        "again%=:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again%=;\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
    __syncwarp();
#endif
  }
};

// A thread's vectors of a row: first, first + blockDim.x, ... those of them below `packs`, packed, so that one of 16
// bits takes half the registers.
template <class T, int Loads>
struct ClusterShare {
  Exchange& exchange;
  int cluster, first, packs;

  // Calls f(i, offset in the row in bytes, offset of the slot in vectors) for the thread's vectors. The
  // offsets are cheaper to compute anew than to keep from row to row, which is what the compiler would do.
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
    unsigned step = blockDim.x;
    asm volatile("" : "+r"(step));
#pragma unroll
    for (int i = 0; i < Loads; ++i) {
      const unsigned at = static_cast<unsigned>(first) + i * step;
      if (at < static_cast<unsigned>(packs)) f(i, at * 16, i * step);
    }
  }
  // See Exchange.
  template <class Op>
  __device__ __forceinline__ float combine(float v, float neutral, Op op, int call) const {
    return exchange.combine(v, neutral, op, call, cluster);
  }
  // Replaces the elements of vector i by f(i, elements) and stores them in the row at `to`.
  template <class F>
  __device__ __forceinline__ void store(gpu::Vector<T> (&v)[Loads], T* to, const F& f) const {
    each([&](int i, unsigned at, unsigned) {
      float element[gpu::Vector<T>::size];
      v[i].unpack(element);
      f(i, element);
      v[i] = gpu::Vector<T>::from_compute(element);
      v[i].store(reinterpret_cast<T*>(reinterpret_cast<char*>(to) + at));
    });
  }
};

// Walks over the rows of K tensors: calls f(share, where the row begins, how many were before, its vectors of each
// tensor). Beyond the row's end the vectors hold `otherwise`. Dynamic shared memory: K * Loads vectors for each thread.
template <int Loads, class T, int K, class F>
__device__ __forceinline__ void walk_in_clusters(const T* const (&from)[K], const Extents& e, int cluster,
                                                 float otherwise, const F& f) {
  extern __shared__ uint4 ahead[];
  __shared__ Exchange exchange;
  const ClusterShare<T, Loads> share{
      exchange, cluster,
      Exchange::rank() * static_cast<int>(blockDim.x) * Loads + static_cast<int>(threadIdx.x),
      static_cast<int>(e.n / gpu::Vector<T>::size)};
  const std::int64_t length = e.n, step = gridDim.x / cluster;
  const auto slot_of = [&](int k, unsigned slot) {
    return ahead + threadIdx.x + k * Loads * blockDim.x + slot;
  };
  const auto request = [&](std::int64_t row) {
    share.each([&](int, unsigned at, unsigned slot) {
#pragma unroll
      for (int k = 0; k < K; ++k)
        gpu::copy_async(slot_of(k, slot), reinterpret_cast<const char*>(from[k] + row * length) + at);
    });
  };
  std::int64_t row = blockIdx.x / cluster;
  exchange.begin(cluster);
  request(row);
  exchange.ready(cluster);
  for (int turn = 0; row < e.outer; row += step, ++turn) {
    gpu::Vector<T> v[K][Loads];
    gpu::copy_async_wait();
#pragma unroll
    for (int i = 0; i < K * Loads; ++i)
      v[i / Loads][i % Loads] = gpu::Vector<T>::filled(gpu::from_compute<T>(otherwise));
    share.each([&](int i, unsigned, unsigned slot) {
#pragma unroll
      for (int k = 0; k < K; ++k) v[k][i].word = *slot_of(k, slot);
    });
    if (row + step < e.outer) request(row + step);
    f(share, row * length, turn, v);
  }
}

// Number of clusters of this shape that can be resident, of at most 16 blocks; asked once per kernel, device and shape.
template <auto kernel>
int resident_clusters(const char* op, const cudaLaunchConfig_t& config, int cluster) {
  // 1 more than the answer.
  static std::atomic<int> known[kMaxCudaDevices][kMostBlocks + 1][kClusterWarps + 1];
  std::atomic<int>& entry = known[current_cuda_device()][cluster][config.blockDim.x / 32];
  int clusters = entry.load(std::memory_order_relaxed) - 1;
  if (clusters < 0) [[unlikely]] {
    if (cluster > kLargestCluster)  // the architecture promises 8
      CT_CUDA_OP(op, cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    CT_CUDA_OP(op, cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
    entry.store(clusters + 1, std::memory_order_relaxed);
  }
  return clusters;
}

// Launches a kernel in clusters of blocks that walk over the rows, with the same number of rows for each.
template <auto kernel, class Call>
void launch_clusters(const char* op, const Call& call, const Extents& e, unsigned threads, int cluster,
                     std::size_t smem) {
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
  // The kernels are compiled for 1024 threads on a multiprocessor.
  const int resident = cluster > 1 ? std::max(resident_clusters<kernel>(op, config, cluster), 1)
                                   : gpu::multiprocessors() * (1024 / static_cast<int>(threads));
  const std::int64_t each = gpu::ceil_div(e.outer, resident);
  config.gridDim = dim3(static_cast<unsigned>(gpu::ceil_div(e.outer, each) * cluster));
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, call, e, cluster);
  if (status != cudaSuccess) gpu::throw_cuda_error(op, "the kernel launch", status);
}

}  // namespace ct::rows
