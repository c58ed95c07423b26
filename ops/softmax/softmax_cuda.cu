#include <cmath>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/softmax/softmax_kernels.h>

// softmax and log_softmax on CUDA: each element is read once and written once.
//
//   warp_*     rows of up to 1024 elements: a group of 1 to 32 lanes holds a row in registers
//   cluster_*  longer rows of whole 16-byte vectors: the row lies in the registers of a block, or of a
//   cluster of
//              2 to 8 blocks that exchange their maxima and sums through distributed shared memory. Small
//              blocks with 4 loads per thread, several to a multiprocessor: one row's stores overlap
//              another's loads.
//   loop_*     what is left (odd or huge rows): the statistics in one pass, the result in a second, out of L2
//   column_*   another axis than the last: 32 neighbouring columns per block
//
// 16-bit types are computed in float; elements stay packed in registers and are converted where they are
// used. Backward has the same shapes with y and g in place of x.

namespace ct::softmax_kernels {
namespace {

template <class C>
constexpr C kMinusInf = -std::numeric_limits<C>::infinity();

// exp of the result's accuracy: for 16-bit results two instructions.
template <class T>
__device__ __forceinline__ compute_t<T> exp_for(compute_t<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return exp(x);
  } else if constexpr (std::is_same_v<T, float>) {
    return expf(x);
  } else {
    return __expf(x);
  }
}

// The running maximum and the sum of exponentials relative to it; a NaN ends up in the sum.
template <class C>
struct Stats {
  C max, sum;
};
template <class C>
__device__ __forceinline__ Stats<C> stats_of(C v) {
  if (v != v) return {kMinusInf<C>, v};
  return {v, v == kMinusInf<C> ? C(0) : C(1)};
}
template <class T, class C>
__device__ __forceinline__ Stats<C> join(const Stats<C>& a, const Stats<C>& b) {
  const C max = b.max > a.max ? b.max : a.max;
  // Where nothing but -inf was seen, the sum is 0, or NaN, whatever it is relative to.
  const C fa = a.max == max ? C(1) : a.max == kMinusInf<C> ? a.sum : exp_for<T>(a.max - max);
  const C fb = b.max == max ? C(1) : b.max == kMinusInf<C> ? b.sum : exp_for<T>(b.max - max);
  return {max, a.sum * fa + b.sum * fb};
}

template <class C>
__device__ __forceinline__ C larger(C a, C b) {
  return b > a ? b : a;
}
template <class C>
__device__ __forceinline__ C group_max(C v, int width) {
  for (int delta = width / 2; delta > 0; delta /= 2)
    v = larger(v, __shfl_xor_sync(0xffffffffu, v, delta, width));
  return v;
}
template <class C>
__device__ __forceinline__ C group_sum(C v, int width) {
  for (int delta = width / 2; delta > 0; delta /= 2) v += __shfl_xor_sync(0xffffffffu, v, delta, width);
  return v;
}

// Of one element: its softmax, with scale = 1 / sum, or its log_softmax, with scale = log(sum).
template <bool logarithm, class T, class C>
__device__ __forceinline__ C result_of(C x, C max, C scale) {
  return logarithm ? x - max - scale : exp_for<T>(x - max) * scale;
}
template <bool logarithm, class C>
__device__ __forceinline__ C scale_of(C sum) {
  return logarithm ? log(sum) : C(1) / sum;
}
template <bool logarithm, class T, class C>
__device__ __forceinline__ C gradient_of(C g, C y, C sum) {
  return logarithm ? g - exp_for<T>(y) * sum : y * (g - sum);
}

// ---- rows in the registers of up to 32 lanes ----

template <bool logarithm, class T, int N, int Loads>
__global__ void __launch_bounds__(128)
    warp_forward(const T* __restrict__ x, T* __restrict__ y, std::int64_t rows, int n, int group) {
  using C = compute_t<T>;
  using Pack = gpu::Packed<T, N>;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / group) + threadIdx.x / group;
  const bool live = row < rows;  // all lanes take part in the shuffles
  C v[Loads][N];
  C max = kMinusInf<C>;
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const int at = (lane + i * group) * N;
    if (live && at < n) {
      Pack::load_streaming(x + row * n + at).to_compute(v[i]);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) v[i][j] = kMinusInf<C>;
    }
#pragma unroll
    for (int j = 0; j < N; ++j) max = larger(max, v[i][j]);
  }
  max = group_max(max, group);
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
  const C scale = scale_of<logarithm>(group_sum(sum, group));
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
                  int n, int group) {
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
      out[j] = gradient_of<logarithm, T>(gpu::to_compute(gs[i][j]), gpu::to_compute(ys[i][j]), sum);
    Pack::from_compute(out).store(dx + row * n + at);
  }
}

// ---- rows in the registers of a block or a cluster ----

// Combines one value per thread over the block by Op; all threads get the result. `memory` holds 32 values
// and may be used again after the next __syncthreads.
template <class C, class Op>
__device__ __forceinline__ C block_combine(C v, C neutral, C* memory, Op op) {
  for (int delta = 16; delta > 0; delta /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, delta));
  const int warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) memory[threadIdx.x / 32] = v;
  __syncthreads();
  v = static_cast<int>(threadIdx.x % 32) < warps ? memory[threadIdx.x % 32] : neutral;
  for (int delta = 16; delta > 0; delta /= 2) v = op(v, __shfl_xor_sync(0xffffffffu, v, delta));
  return v;
}

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
  float sum = 0;
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    v[i].unpack(element);
#pragma unroll
    for (int j = 0; j < n; ++j) sum += exp_for<T>(element[j] - max);
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
    for (int j = 0; j < n; ++j) element[j] = result_of<logarithm, T>(element[j], max, scale);
    gpu::Packed<T>::from_compute(element).store(to + static_cast<std::int64_t>(at) * n);
  }
  if (cluster > 1) cluster_barrier();
}

template <bool logarithm, class T, int Loads>
__global__ void __launch_bounds__(512, Loads == 4 ? 2 : 1)
    cluster_backward(const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx, int packs,
                     int cluster) {
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
    for (int j = 0; j < n; ++j) a[j] = gradient_of<logarithm, T>(a[j], b[j], sum);
    gpu::Packed<T>::from_compute(a).store(dx + offset + static_cast<std::int64_t>(at) * n);
  }
  if (cluster > 1) cluster_barrier();
}

// ---- rows of any length and alignment ----

template <class T>
__device__ Stats<compute_t<T>> block_join(Stats<compute_t<T>> s) {
  using C = compute_t<T>;
  __shared__ C max_memory[32], sum_memory[32];
  const C max = block_combine(s.max, kMinusInf<C>, max_memory, [](C a, C b) { return larger(a, b); });
  const C factor = s.max == max ? C(1) : s.max == kMinusInf<C> ? s.sum : exp_for<T>(s.max - max);
  const C sum = block_combine(s.sum * factor, C(0), sum_memory, [](C a, C b) { return a + b; });
  return {max, sum};
}

template <bool logarithm, class T>
__global__ void __launch_bounds__(512)
    loop_forward(const T* __restrict__ x, T* __restrict__ y, std::int64_t n) {
  using C = compute_t<T>;
  const T* from = x + blockIdx.x * n;
  Stats<C> stats{kMinusInf<C>, 0};
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    stats = join<T>(stats, stats_of<C>(gpu::to_compute(from[i])));
  }
  stats = block_join<T>(stats);
  // Without a finite maximum there is no softmax: every element of the row is NaN.
  const C scale = isinf(stats.max) ? C(NAN) : scale_of<logarithm>(stats.sum);
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    y[blockIdx.x * n + i] = gpu::from_compute<T>(
        result_of<logarithm, T>(static_cast<C>(gpu::to_compute(from[i])), stats.max, scale));
}

template <bool logarithm, class T>
__global__ void __launch_bounds__(512)
    loop_backward(const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx, std::int64_t n) {
  using C = compute_t<T>;
  __shared__ C memory[32];
  const std::int64_t offset = blockIdx.x * n;
  C sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    sum += gpu::to_compute(g[offset + i]) * (logarithm ? C(1) : gpu::to_compute(y[offset + i]));
  sum = block_combine(sum, C(0), memory, [](C a, C b) { return a + b; });
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    dx[offset + i] = gpu::from_compute<T>(gradient_of<logarithm, T>(
        static_cast<C>(gpu::to_compute(g[offset + i])), static_cast<C>(gpu::to_compute(y[offset + i])), sum));
}

// ---- another axis than the last ----

// 32 columns per block, 8 threads to a column. Only the threads of y = 0 know the joined statistics at first.
template <bool logarithm, class T>
__global__ void __launch_bounds__(256)
    column_forward(const T* __restrict__ x, T* __restrict__ y, std::int64_t n, std::int64_t inner,
                   std::int64_t tiles) {
  using C = compute_t<T>;
  __shared__ Stats<C> shared[8][32];
  const std::int64_t column = blockIdx.x % tiles * 32 + threadIdx.x;
  const bool inside = column < inner;
  const std::int64_t offset = blockIdx.x / tiles * n * inner + column;
  Stats<C> stats{kMinusInf<C>, 0};
  if (inside)
    for (std::int64_t r = threadIdx.y; r < n; r += 8)
      stats = join<T>(stats, stats_of<C>(gpu::to_compute(x[offset + r * inner])));
  shared[threadIdx.y][threadIdx.x] = stats;
  __syncthreads();
  stats = shared[0][threadIdx.x];
  for (int i = 1; i < 8; ++i) stats = join<T>(stats, shared[i][threadIdx.x]);
  if (!inside) return;
  const C scale = isinf(stats.max) ? C(NAN) : scale_of<logarithm>(stats.sum);
  for (std::int64_t r = threadIdx.y; r < n; r += 8) {
    const C v = gpu::to_compute(x[offset + r * inner]);
    y[offset + r * inner] = gpu::from_compute<T>(result_of<logarithm, T>(v, stats.max, scale));
  }
}

template <bool logarithm, class T>
__global__ void __launch_bounds__(256)
    column_backward(const T* __restrict__ g, const T* __restrict__ y, T* __restrict__ dx, std::int64_t n,
                    std::int64_t inner, std::int64_t tiles) {
  using C = compute_t<T>;
  __shared__ C shared[8][32];
  const std::int64_t column = blockIdx.x % tiles * 32 + threadIdx.x;
  const bool inside = column < inner;
  const std::int64_t offset = blockIdx.x / tiles * n * inner + column;
  C sum = 0;
  if (inside)
    for (std::int64_t r = threadIdx.y; r < n; r += 8) {
      const std::int64_t at = offset + r * inner;
      sum += gpu::to_compute(g[at]) * (logarithm ? C(1) : gpu::to_compute(y[at]));
    }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = shared[0][threadIdx.x];
  for (int i = 1; i < 8; ++i) sum += shared[i][threadIdx.x];
  if (!inside) return;
  for (std::int64_t r = threadIdx.y; r < n; r += 8) {
    const std::int64_t at = offset + r * inner;
    dx[at] = gpu::from_compute<T>(gradient_of<logarithm, T>(static_cast<C>(gpu::to_compute(g[at])),
                                                            static_cast<C>(gpu::to_compute(y[at])), sum));
  }
}

// ---- choosing ----

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

// Launches a kernel in clusters of blocks.
template <class... Params, class... Args>
void launch_clusters(const char* op, void (*kernel)(Params...), std::int64_t rows, unsigned threads,
                     int cluster, Args... args) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(gpu::blocks_for(op, rows * cluster, 1));
  config.blockDim = dim3(threads);
  config.stream = gpu::native_stream();
  config.attrs = &attribute;
  config.numAttrs = cluster > 1 ? 1 : 0;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
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
      gpu::launch(op, kernel, grid, dim3(128), 0, x, y, e.outer, e.n, group);
    };
    if (loads == 1) return go(warp_forward<logarithm, T, N, 1>);
    if (loads <= 4) return go(warp_forward<logarithm, T, N, 4>);
    if constexpr (N == 1) {
      if (loads <= 12) return go(warp_forward<logarithm, T, N, 12>);
      return go(warp_forward<logarithm, T, N, 32>);
    } else if constexpr (N <= 4) {
      return go(warp_forward<logarithm, T, N, 32 / N>);
    }
  }
  void clusters(std::int64_t rows, unsigned threads, int cluster, int per_thread, int packs) const {
    if constexpr (!std::is_same_v<T, double>)
      launch_clusters(op,
                      per_thread == 4 ? cluster_forward<logarithm, T, 4> : cluster_forward<logarithm, T, 8>,
                      rows, threads, cluster, x, y, packs, cluster);
  }
  void loop(dim3 grid, dim3 block) const {
    gpu::launch(op, loop_forward<logarithm, T>, grid, block, 0, x, y, e.n);
  }
  void columns(dim3 grid, dim3 block, std::int64_t tiles) const {
    gpu::launch(op, column_forward<logarithm, T>, grid, block, 0, x, y, e.n, e.inner, tiles);
  }
};

template <bool logarithm, class T>
struct LaunchBackward {
  const char* op;
  const T *g, *y;
  T* dx;
  Extents e;

  template <int N>
  void warps(dim3 grid, int loads, int group) const {
    const auto go = [&](auto kernel) {
      gpu::launch(op, kernel, grid, dim3(128), 0, g, y, dx, e.outer, e.n, group);
    };
    if (loads == 1) return go(warp_backward<logarithm, T, N, 1>);
    if (loads <= 4) return go(warp_backward<logarithm, T, N, 4>);
    if constexpr (N == 1) {
      if (loads <= 12) return go(warp_backward<logarithm, T, N, 12>);
      return go(warp_backward<logarithm, T, N, 32>);
    } else if constexpr (N <= 4) {
      return go(warp_backward<logarithm, T, N, 32 / N>);
    }
  }
  void clusters(std::int64_t rows, unsigned threads, int cluster, int per_thread, int packs) const {
    if constexpr (!std::is_same_v<T, double>)
      launch_clusters(op,
                      per_thread == 4 ? cluster_backward<logarithm, T, 4> : cluster_backward<logarithm, T, 8>,
                      rows, threads, cluster, g, y, dx, packs, cluster);
  }
  void loop(dim3 grid, dim3 block) const {
    gpu::launch(op, loop_backward<logarithm, T>, grid, block, 0, g, y, dx, e.n);
  }
  void columns(dim3 grid, dim3 block, std::int64_t tiles) const {
    gpu::launch(op, column_backward<logarithm, T>, grid, block, 0, g, y, dx, e.n, e.inner, tiles);
  }
};

}  // namespace

template <bool logarithm>
void forward_cuda(const Forward& f) {
  const Tensor& y = f.out();
  if (y.numel() == 0) return;
  NoGrad guard;
  const Tensor x = f.in(0).contiguous();
  const Extents e = extents(f.op.name, y.shape(), f.attrs<Attrs>().axis);
  const bool aligned = gpu::is_aligned(x.raw_data(), 16) && gpu::is_aligned(y.raw_data(), 16);
  visit_floating(f.op.name, y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    choose<T>(f.op.name, e, aligned, LaunchForward<logarithm, T>{f.op.name, x.data<T>(), y.data<T>(), e});
  });
}

template <bool logarithm>
void backward_cuda(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dx = b.grad_in(0);
  if (dx.numel() == 0) return;
  NoGrad guard;
  const Tensor y = b.out().contiguous(), g = b.grad().contiguous();
  const Extents e = extents(b.op.name, dx.shape(), b.attrs<Attrs>().axis);
  const bool aligned = gpu::is_aligned(g.raw_data(), 16) && gpu::is_aligned(y.raw_data(), 16) &&
                       gpu::is_aligned(dx.raw_data(), 16);
  visit_floating(b.op.name, dx.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    choose<T>(b.op.name, e, aligned,
              LaunchBackward<logarithm, T>{b.op.name, g.data<T>(), y.data<T>(), dx.data<T>(), e});
  });
}

template void forward_cuda<false>(const Forward&);
template void forward_cuda<true>(const Forward&);
template void backward_cuda<false>(const Backward&);
template void backward_cuda<true>(const Backward&);

}  // namespace ct::softmax_kernels
