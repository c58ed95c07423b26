#pragma once

#include <cotangent/ops/softmax/cuda_common_internal.cuh>

// The kernels that hold a row in registers. For softmax_cuda.cu only.

namespace ct::softmax_kernels {
namespace {

// ---- rows in the registers of up to 32 lanes ----

template <bool logarithm, class T, int N, int Loads, class Input>
__global__ void __launch_bounds__(128)
    warp_forward(const T* __restrict__ x, T* __restrict__ y, std::int64_t rows, int n, int group,
                 const __grid_constant__ Input input) {
  using C = compute_t<T>;
  using Pack = gpu::Packed<T, N>;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / group) + threadIdx.x / group;
  const bool live = row < rows;  // all lanes take part in the shuffles
  const std::int64_t offset = live ? input.row_offset(row) : 0;
  C v[Loads][N];
  C max = kMinusInf<C>;
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = (lane + i * group) * N;
    if (live && at < n) {
      Pack::load_streaming(x + row * n + at).to_compute(v[i]);
      input(offset, at, v[i]);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) v[i][j] = kMinusInf<C>;
    }
#pragma unroll
    for (int j = 0; j < N; ++j) max = larger(max, v[i][j]);
  }
  max = group_max(max, group);
  if (Input::hides && max == kMinusInf<C>) max = 0;
  C sum = 0;
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const C e = exp_for<T>(v[i][j] - max);
      if (!logarithm) v[i][j] = e;
      // Lanes past the end hold -inf and add 0; where the whole row is -inf, the NaN is wanted.
      sum += e;
    }
  }
  sum = group_sum(sum, group);
  const C scale = Input::hides && sum == 0 ? C(0) : scale_of<logarithm>(sum);
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = (lane + i * group) * N;
    if (!live || at >= n) continue;
#pragma unroll
    for (int j = 0; j < N; ++j) v[i][j] = logarithm ? v[i][j] - max - scale : v[i][j] * scale;
    Pack::from_compute(v[i]).store(y + row * n + at);
  }
}

template <bool logarithm, class T, int N, int Loads>
__global__ void __launch_bounds__(128)
    warp_backward(const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx, std::int64_t rows,
                  int n, int group, compute_t<T> factor) {
  using C = compute_t<T>;
  using Pack = gpu::Packed<T, N>;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / group) + threadIdx.x / group;
  const bool live = row < rows;
  Pack gs[Loads], ys[Loads];
  C sum = 0;
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = (lane + i * group) * N;
    if (live && at < n) {
      gs[i] = Pack::load_streaming(g + row * n + at);
      ys[i] = Pack::load_streaming(y + row * n + at);
    } else {
      gs[i] = ys[i] = Pack::filled(gpu::from_compute<T>(C(0)));
    }
  }
#pragma unroll
  for (int i = 0; i < Loads; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j)
      sum += gpu::to_compute(gs[i][j]) * (logarithm ? C(1) : gpu::to_compute(ys[i][j]));
  sum = group_sum(sum, group);
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = (lane + i * group) * N;
    if (!live || at >= n) continue;
    C out[N];
#pragma unroll
    for (int j = 0; j < N; ++j)
      out[j] = gradient_of<logarithm, T>(gpu::to_compute(gs[i][j]), gpu::to_compute(ys[i][j]), sum, factor);
    Pack::from_compute(out).store(dx + row * n + at);
  }
}

// ---- rows in the registers of a block or a cluster ----

// 16 bytes of a row as they were loaded. Kept as words, and opaque from one use to the next: otherwise the
// compiler takes them apart once and keeps a register per element, twice or four times as many.
template <class T>
struct Words {
  static constexpr int size = gpu::Packed<T>::size;
  uint4 words;

  __device__ __forceinline__ void load(const T* from) {
    words = __ldcs(reinterpret_cast<const uint4*>(from));
  }
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
      } else if constexpr (std::is_same_v<T, BFloat16>) {
        out[2 * i] = __uint_as_float(word[i] << 16);
        out[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000u);
      } else {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&word[i]));
        out[2 * i] = pair.x;
        out[2 * i + 1] = pair.y;
      }
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
};

// Cluster-wide exchange, in PTX: the block's rank, a barrier, and a read of another block's shared memory.
__device__ __forceinline__ int cluster_rank() {
#if __CUDA_ARCH__ >= 900
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  return 0;
#endif
}
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ float cluster_read(const float* local, int rank) {
#if __CUDA_ARCH__ >= 900
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(local));
  unsigned remote;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(remote) : "memory");
  return value;
#else
  return *local;
#endif
}

// Joins one value per block over the `size` blocks of a cluster, in the order of their ranks.
template <class Op>
__device__ __forceinline__ float cluster_combine(float v, float* slot, int size, Op op) {
  if (size == 1) return v;
  if (threadIdx.x == 0) *slot = v;
  cluster_barrier();
  v = cluster_read(slot, 0);
  for (int rank = 1; rank < size; ++rank) v = op(v, cluster_read(slot, rank));
  return v;  // the caller ends with a barrier: nobody may leave while its memory is read
}

struct Max {
  __device__ float operator()(float a, float b) const { return larger(a, b); }
};
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <bool logarithm, class T, int Loads>
__global__ void __launch_bounds__(512, Loads == 4 ? 3 : 2)
    cluster_forward(const T* __restrict__ x, T* __restrict__ y, int packs, int cluster) {
  constexpr int n = Words<T>::size;
  __shared__ float memory[2][32], slot[2];
  const std::int64_t offset = static_cast<std::int64_t>(blockIdx.x / cluster) * packs * n;
  const int first = cluster_rank() * static_cast<int>(blockDim.x) * Loads + static_cast<int>(threadIdx.x);
  const T* from = x + offset;
  T* to = y + offset;
  Words<T> v[Loads];
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = first + i * static_cast<int>(blockDim.x);
    if (at < packs) {
      v[i].load(from + static_cast<std::int64_t>(at) * n);
    } else {
      v[i].fill(kMinusInf<float>);
    }
  }
  float max = kMinusInf<float>, element[n];
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    v[i].unpack(element);
#pragma unroll
    for (int j = 0; j < n; ++j) max = larger(max, element[j]);
  }
  max = block_combine(max, kMinusInf<float>, memory[0], Max{});
  max = cluster_combine(max, &slot[0], cluster, Max{});
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
  sum = block_combine(sum, 0.0f, memory[1], Plus{});
  sum = cluster_combine(sum, &slot[1], cluster, Plus{});
  const float scale = scale_of<logarithm>(sum);
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = first + i * static_cast<int>(blockDim.x);
    if (at >= packs) continue;
    v[i].unpack(element);
#pragma unroll
    for (int j = 0; j < n; ++j)
      element[j] = kept ? element[j] * scale : result_of<logarithm, T>(element[j], max, scale);
    v[i].pack(element);
    v[i].store(to + static_cast<std::int64_t>(at) * n);
  }
  if (cluster > 1) cluster_barrier();
}

template <bool logarithm, class T, int Loads>
__global__ void __launch_bounds__(512, Loads == 4 ? 2 : 1)
    cluster_backward(const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx, int packs,
                     int cluster, float factor) {
  constexpr int n = Words<T>::size;
  __shared__ float memory[32], slot;
  const std::int64_t offset = static_cast<std::int64_t>(blockIdx.x / cluster) * packs * n;
  const int first = cluster_rank() * static_cast<int>(blockDim.x) * Loads + static_cast<int>(threadIdx.x);
  Words<T> gs[Loads], ys[Loads];
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = first + i * static_cast<int>(blockDim.x);
    if (at < packs) {
      gs[i].load(g + offset + static_cast<std::int64_t>(at) * n);
      ys[i].load(y + offset + static_cast<std::int64_t>(at) * n);
    } else {
      gs[i].fill(0);
      ys[i].fill(0);
    }
  }
  float sum = 0, a[n], b[n];
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    gs[i].unpack(a);
    if (!logarithm) ys[i].unpack(b);
#pragma unroll
    for (int j = 0; j < n; ++j) sum += logarithm ? a[j] : a[j] * b[j];
  }
  sum = block_combine(sum, 0.0f, memory, Plus{});
  sum = cluster_combine(sum, &slot, cluster, Plus{});
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = first + i * static_cast<int>(blockDim.x);
    if (at >= packs) continue;
    gs[i].unpack(a);
    ys[i].unpack(b);
#pragma unroll
    for (int j = 0; j < n; ++j) a[j] = gradient_of<logarithm, T>(a[j], b[j], sum, factor);
    gs[i].pack(a);
    gs[i].store(dx + offset + static_cast<std::int64_t>(at) * n);
  }
  if (cluster > 1) cluster_barrier();
}

}  // namespace
}  // namespace ct::softmax_kernels
