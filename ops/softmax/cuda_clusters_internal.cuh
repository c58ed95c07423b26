#pragma once

#include <type_traits>

#include <cotangent/ops/softmax/cuda_common_internal.cuh>

// The kernels that hold a row in the registers of a block or a cluster. For softmax_cuda.cu only.
//
// The clusters stay and walk over the rows. A thread's share of the next row is on its way to shared memory,
// into slots that no other thread touches, while this row is reduced and stored: the memory is never idle,
// and the row ahead costs no registers.

namespace ct::softmax_kernels {
namespace {

__device__ __forceinline__ void copy_async(uint4* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
      "l"(from)
      : "memory");
#else
  *to = __ldcs(static_cast<const uint4*>(from));
#endif
}
__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// 16 bytes of a row as they were loaded. Kept as words, and opaque from one use to the next: otherwise the
// compiler takes them apart once and keeps a register per element, twice or four times as many.
template <class T>
struct Words {
  static constexpr int size = gpu::Packed<T>::size;
  uint4 words;

  __device__ __forceinline__ void fill(float value) {
    const auto pack = gpu::Packed<T>::filled(gpu::from_compute<T>(value));
    words = *reinterpret_cast<const uint4*>(&pack);
  }
  __device__ __forceinline__ void pack(const float (&in)[size]) {
    if constexpr (std::is_same_v<T, float>) {
      words = make_uint4(__float_as_uint(in[0]), __float_as_uint(in[1]), __float_as_uint(in[2]),
                         __float_as_uint(in[3]));
    } else {
      words = make_uint4(pair(in[0], in[1]), pair(in[2], in[3]), pair(in[4], in[5]), pair(in[6], in[7]));
    }
  }
  __device__ __forceinline__ void unpack(float (&out)[size]) {
    asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
    const unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        out[i] = __uint_as_float(word[i]);
      } else {
        const float2 two = apart(word[i]);
        out[2 * i] = two.x;
        out[2 * i + 1] = two.y;
      }
    }
  }
  // The largest of the elements and of `max`, a number or, for 16 bits, a pair of them. Not NaN, unless all
  // are.
  __device__ __forceinline__ unsigned largest(unsigned max) const {
    return larger_word(larger_word(larger_word(larger_word(max, words.x), words.y), words.z), words.w);
  }
  static __device__ __forceinline__ float as_float(unsigned max) {
    if constexpr (std::is_same_v<T, float>) {
      return __uint_as_float(max);
    } else {
      const float2 two = apart(max);
      return fmaxf(two.x, two.y);
    }
  }
  // In PTX: left to the compiler, the four words are stored one by one.
  __device__ __forceinline__ void store(T* to) const {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y),
                 "r"(words.z), "r"(words.w)
                 : "memory");
  }

 private:
  static __device__ __forceinline__ unsigned pair(float a, float b) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
      return *reinterpret_cast<const unsigned*>(&two);
    } else {
      const __half2 two = __floats2half2_rn(a, b);
      return *reinterpret_cast<const unsigned*>(&two);
    }
  }
  static __device__ __forceinline__ float2 apart(unsigned word) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
    } else {
      return __half22float2(*reinterpret_cast<const __half2*>(&word));
    }
  }
  static __device__ __forceinline__ unsigned larger_word(unsigned a, unsigned b) {
    if constexpr (std::is_same_v<T, float>) {
      return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      const __nv_bfloat162 two =
          __hmax2(*reinterpret_cast<const __nv_bfloat162*>(&a), *reinterpret_cast<const __nv_bfloat162*>(&b));
      return *reinterpret_cast<const unsigned*>(&two);
    } else {
      const __half2 two =
          __hmax2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b));
      return *reinterpret_cast<const unsigned*>(&two);
    }
  }
};

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
      copy_async(slots + slot, reinterpret_cast<const char*>(row) + at);
    });
  }
  __device__ __forceinline__ void receive(Words<T> (&v)[Loads], const uint4* slots, float otherwise) const {
#pragma unroll
    for (int i = 0; i < Loads; ++i) v[i].fill(otherwise);
    each([&](int i, unsigned, unsigned slot) { v[i].words = slots[slot]; });
  }
};

struct Max {  // not for NaN
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

constexpr int kLargestCluster = 8, kClusterWarps = 16;

// Combines values over a cluster. Every warp sends its value to all blocks, and a block waits until all have
// reached it. That is counted by an mbarrier rather than found out by a barrier of the cluster, whose release
// waits for everything that the thread wrote and requested before: the stores of the last row, the next row.
struct Exchange {
  float memory[2][kLargestCluster * kClusterWarps];
  std::uint64_t arrived[2];

  // All blocks call both at the start, the requests of the first row between them.
  __device__ __forceinline__ void begin(int cluster) {
#if __CUDA_ARCH__ >= 900
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
#if __CUDA_ARCH__ >= 900
    if (cluster > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  }

  // Of one value per thread; all threads get the result. The calls alternate between k = 0 and k = 1, and
  // `parity` is that of the number of calls with this k before. So one memory may be written while the other
  // is read, and it is written again only after all have sent their values of the call between, that is after
  // all have read it. For the same reason a block may leave after its last call.
  template <class Op>
  __device__ __forceinline__ float combine(float v, float neutral, int k, int parity, int cluster, Op op) {
    for (int delta = 16; delta > 0; delta /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, delta));
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
    for (int delta = 16; delta > 0; delta /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, delta));
    return v;
  }

  // The block's number in its cluster.
  static __device__ __forceinline__ int rank() {
#if __CUDA_ARCH__ >= 900
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
#if __CUDA_ARCH__ >= 900
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
  constexpr int n = Words<T>::size;
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
    Words<T> v[Loads];
    copy_async_wait();
    share.receive(v, slots, kMinusInf<float>);
    if (row + step < rows) share.request(slots, x + (row + step) * length);

    Words<T> lowest;
    lowest.fill(kMinusInf<float>);
    unsigned most = lowest.words.x;
#pragma unroll
    for (int i = 0; i < Loads; ++i) most = v[i].largest(most);
    float max = Words<T>::as_float(most), element[n];
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
      if constexpr (kept) v[i].pack(element);
    }
    sum = exchange.combine(sum, 0.0f, 1, turn & 1, cluster, Plus{});
    const float scale = scale_of<logarithm>(sum);
    T* const to = y + row * length;
    share.each([&](int i, unsigned at, unsigned) {
      v[i].unpack(element);
#pragma unroll
      for (int j = 0; j < n; ++j)
        element[j] = kept ? element[j] * scale : result_of<logarithm, T>(element[j], max, scale);
      v[i].pack(element);
      v[i].store(reinterpret_cast<T*>(reinterpret_cast<char*>(to) + at));
    });
  }
}

// Dynamic shared memory: 2 * Loads vectors for each thread.
template <bool logarithm, class T, int Loads>
__global__ void __launch_bounds__(kClusterWarps * 32, Loads == 4 ? 2 : 1)
    cluster_backward(const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx, std::int64_t rows,
                     int packs, int cluster, float factor) {
  constexpr int n = Words<T>::size;
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
    Words<T> gs[Loads], ys[Loads];
    copy_async_wait();
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
    sum = exchange.combine(sum, 0.0f, turn & 1, turn >> 1 & 1, cluster, Plus{});
    T* const to = dx + row * length;
    share.each([&](int i, unsigned at, unsigned) {
      gs[i].unpack(a);
      ys[i].unpack(b);
#pragma unroll
      for (int j = 0; j < n; ++j) a[j] = gradient_of<logarithm, T>(a[j], b[j], sum, factor);
      gs[i].pack(a);
      gs[i].store(reinterpret_cast<T*>(reinterpret_cast<char*>(to) + at));
    });
  }
}

}  // namespace
}  // namespace ct::softmax_kernels
