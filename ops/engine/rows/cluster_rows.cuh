#pragma once

#include <type_traits>

#include <cotangent/core/cuda/async_copy.h>
#include <cotangent/ops/engine/rows/rows.cuh>

// The kernels that hold a row in the registers of a block or a cluster. For softmax_cuda.cu only.
//
// The clusters stay and walk over the rows. A thread's share of the next row is on its way to shared memory,
// into slots that no other thread touches, while this row is reduced and stored: the memory is never idle,
// and the row ahead costs no registers.

namespace ct::softmax_kernels {
namespace {

// The larger of two words, each a number or, for 16 bits, a pair of them. Not NaN, unless both are.
template <class T>
__device__ __forceinline__ unsigned larger_word(unsigned a, unsigned b) {
  if constexpr (std::is_same_v<T, float>) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  } else {
    using Pair = std::conditional_t<std::is_same_v<T, BFloat16>, __nv_bfloat162, __half2>;
    const Pair two = __hmax2(*reinterpret_cast<const Pair*>(&a), *reinterpret_cast<const Pair*>(&b));
    return *reinterpret_cast<const unsigned*>(&two);
  }
}
// The largest of the elements of v and of `max`.
template <class T>
__device__ __forceinline__ unsigned largest(const gpu::Vector<T>& v, unsigned max) {
  const uint4 w = v.word;
  return larger_word<T>(larger_word<T>(larger_word<T>(larger_word<T>(max, w.x), w.y), w.z), w.w);
}
// The larger number of a word.
template <class T>
__device__ __forceinline__ float largest_of(unsigned max) {
  if constexpr (std::is_same_v<T, float>) {
    return __uint_as_float(max);
  } else {
    float two[2];
    gpu::Vector<T, 2>{max}.to_compute(two);
    return fmaxf(two[0], two[1]);
  }
}

// Which vectors of a row are a thread's: first, first + blockDim.x, ... those of them below `packs`.
template <class T, int Loads>
struct Share {
  int first, packs;

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
  __device__ __forceinline__ void request(uint4* slots, const T* row) const {
    each([&](int, unsigned at, unsigned slot) {
      gpu::copy_async(slots + slot, reinterpret_cast<const char*>(row) + at);
    });
  }
  __device__ __forceinline__ void receive(gpu::Vector<T> (&v)[Loads], const uint4* slots,
                                          float otherwise) const {
#pragma unroll
    for (int i = 0; i < Loads; ++i) v[i] = gpu::Vector<T>::filled(gpu::from_compute<T>(otherwise));
    each([&](int i, unsigned, unsigned slot) { v[i].word = slots[slot]; });
  }
};

struct Max {  // not for NaN
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

constexpr int kLargestCluster = 8, kClusterWarps = 16;

// Code for older architectures leaves the exchange between blocks out: the host must not launch it in clusters.
#define CT_CLUSTER_ARCH 900
constexpr int kClusterArch = CT_CLUSTER_ARCH;

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

  // Of one value per thread; all threads get the result. The calls alternate between k = 0 and k = 1, and
  // `parity` is that of the number of calls with this k before. So one memory may be written while the other
  // is read, and it is written again only after all have sent their values of the call between, that is after
  // all have read it. For the same reason a block may leave after its last call.
  template <class Op>
  __device__ __forceinline__ float combine(float v, float neutral, int k, int parity, int cluster, Op op) {
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

// Dynamic shared memory: Loads vectors for each thread.
template <bool logarithm, class T, int Loads>
__global__ void __launch_bounds__(kClusterWarps * 32, 2)
    cluster_forward(const T* __restrict__ x, T* __restrict__ y, std::int64_t rows, int packs, int cluster) {
  constexpr int n = gpu::Vector<T>::size;
  extern __shared__ uint4 ahead[];
  __shared__ Exchange exchange;
  const Share<T, Loads> share{
      Exchange::rank() * static_cast<int>(blockDim.x) * Loads + static_cast<int>(threadIdx.x), packs};
  uint4* const slots = ahead + threadIdx.x;
  const std::int64_t length = static_cast<std::int64_t>(packs) * n, step = gridDim.x / cluster;
  std::int64_t row = blockIdx.x / cluster;
  exchange.begin(cluster);
  share.request(slots, x + row * length);
  exchange.ready(cluster);
  for (int turn = 0; row < rows; row += step, ++turn) {
    gpu::Vector<T> v[Loads];
    gpu::copy_async_wait();
    share.receive(v, slots, kMinusInf<float>);
    if (row + step < rows) share.request(slots, x + (row + step) * length);

    unsigned most = gpu::Vector<T>::filled(gpu::from_compute<T>(kMinusInf<float>)).word.x;
#pragma unroll
    for (int i = 0; i < Loads; ++i) most = largest(v[i], most);
    float max = largest_of<T>(most), element[n];
    max = exchange.combine(max, kMinusInf<float>, 0, turn & 1, cluster, Max{});
    // In f32 the exponentials take the place of the elements, and are not computed a second time.
    constexpr bool kept = std::is_same_v<T, float> && !logarithm;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Loads; ++i) {
      v[i].unpack(element);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        const float e = exp_for<T>(element[j] - max);
        sum += e;
        if constexpr (kept) element[j] = e;
      }
      if constexpr (kept) v[i] = gpu::Vector<T>::from_compute(element);
    }
    sum = exchange.combine(sum, 0.0f, 1, turn & 1, cluster, gpu::Plus{});
    const float scale = scale_of(logarithm, sum);
    T* const to = y + row * length;
    share.each([&](int i, unsigned at, unsigned) {
      v[i].unpack(element);
#pragma unroll
      for (int j = 0; j < n; ++j)
        element[j] = kept ? element[j] * scale : result_of<T>(logarithm, element[j], max, scale);
      v[i] = gpu::Vector<T>::from_compute(element);
      v[i].store(reinterpret_cast<T*>(reinterpret_cast<char*>(to) + at));
    });
  }
}

// Dynamic shared memory: 2 * Loads vectors for each thread.
template <bool logarithm, class T, int Loads>
__global__ void __launch_bounds__(kClusterWarps * 32, Loads == 4 ? 2 : 1)
    cluster_backward(const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx, std::int64_t rows,
                     int packs, int cluster, float factor) {
  constexpr int n = gpu::Vector<T>::size;
  extern __shared__ uint4 ahead[];
  __shared__ Exchange exchange;
  const Share<T, Loads> share{
      Exchange::rank() * static_cast<int>(blockDim.x) * Loads + static_cast<int>(threadIdx.x), packs};
  uint4 *const slots = ahead + threadIdx.x, *const more = slots + Loads * blockDim.x;
  const std::int64_t length = static_cast<std::int64_t>(packs) * n, step = gridDim.x / cluster;
  std::int64_t row = blockIdx.x / cluster;
  exchange.begin(cluster);
  share.request(slots, g + row * length);
  share.request(more, y + row * length);
  exchange.ready(cluster);
  for (int turn = 0; row < rows; row += step, ++turn) {
    gpu::Vector<T> gs[Loads], ys[Loads];
    gpu::copy_async_wait();
    share.receive(gs, slots, 0);
    share.receive(ys, more, 0);
    if (row + step < rows) {
      share.request(slots, g + (row + step) * length);
      share.request(more, y + (row + step) * length);
    }

    float sum = 0, a[n], b[n];
#pragma unroll
    for (int i = 0; i < Loads; ++i) {
      gs[i].unpack(a);
      if (!logarithm) ys[i].unpack(b);
#pragma unroll
      for (int j = 0; j < n; ++j) sum += logarithm ? a[j] : a[j] * b[j];
    }
    sum = exchange.combine(sum, 0.0f, turn & 1, turn >> 1 & 1, cluster, gpu::Plus{});
    T* const to = dx + row * length;
    share.each([&](int i, unsigned at, unsigned) {
      gs[i].unpack(a);
      ys[i].unpack(b);
#pragma unroll
      for (int j = 0; j < n; ++j) a[j] = gradient_of<T>(logarithm, a[j], b[j], sum, factor);
      gs[i] = gpu::Vector<T>::from_compute(a);
      gs[i].store(reinterpret_cast<T*>(reinterpret_cast<char*>(to) + at));
    });
  }
}

}  // namespace
}  // namespace ct::softmax_kernels
