#include <type_traits>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/convolution/flat_internal.h>
#include <cotangent/ops/convolution/patches_internal.h>
#include <cotangent/ops/convolution/strided_internal.h>
#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/core/cuda/mma/ptx.cuh>
#include <cotangent/ops/convolution/f32_internal.cuh>

// A part of a convolution is a product of matrices (patches_internal.h), in f32 mostly by f32_internal.cuh. Else a block computes
// a tile of C, 64 x 128. It brings kDepth elements of k at a time of A and of B into shared memory, both with k along the rows of
// the tile. While it multiplies them, the next ones are loaded into registers. For f16 and bf16 tensor cores multiply, for f64
// each thread 8 x 8 elements.
//
// Neighbouring threads read neighbouring pixels of B, and taps from a table in shared memory: pixels are columns of B, or
// rows in the gradient of the weight, whose taps are the columns.

namespace ct::convolution {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 64, kColumns = 128;  // of a tile of C

template <class T>
inline constexpr bool kTensorCores = sizeof(T) == 2;

template <class T>
struct Tile {
  // 16-bit elements are not looked into on their way.
  using Element = std::conditional_t<kTensorCores<T>, std::uint16_t, T>;
  static constexpr int kDepth = kTensorCores<T> ? 32 : 16;
  // Pitch at which eight rows, which ldmatrix reads at a time, or any 32 threads meet different banks.
  static constexpr int kPitch = kDepth + (kTensorCores<T> ? 8 : 1);
};

// ---- the sums of a thread ----

template <class T>
struct Sums {
  using E = typename Tile<T>::Element;
  T sum[8][8] = {};

  // Rows 8 (thread / 16) and on, columns thread % 16 and every 16th from there.
  __device__ __forceinline__ void multiply(const E* a, const E* b) {
    constexpr int pitch = Tile<T>::kPitch;
    a += static_cast<int>(threadIdx.x) / 16 * 8 * pitch;
    b += static_cast<int>(threadIdx.x) % 16 * pitch;
#pragma unroll
    for (int k = 0; k < Tile<T>::kDepth; ++k) {
      T x[8], y[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = a[i * pitch + k];
#pragma unroll
      for (int j = 0; j < 8; ++j) y[j] = b[j * 16 * pitch + k];
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += x[i] * y[j];
    }
  }
  /// Calls f(column), and what that gives with each row of the column: f(column)(row, sum).
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const auto put = f(static_cast<int>(threadIdx.x) % 16 + 16 * j);
#pragma unroll
      for (int i = 0; i < 8; ++i) put(static_cast<int>(threadIdx.x) / 16 * 8 + i, sum[i][j]);
    }
  }
};

// A warp computes 32 x 64 elements, two by eight tiles of 16 x 8.
template <class T>
requires kTensorCores<T>
struct Sums<T> {
  using E = std::uint16_t;
  float sum[2][8][4] = {};

  static __device__ __forceinline__ int first_row() { return static_cast<int>(threadIdx.x) / 32 % 2 * 32; }
  static __device__ __forceinline__ int first_column() { return static_cast<int>(threadIdx.x) / 64 * 64; }

  __device__ __forceinline__ void multiply(const E* a, const E* b) {
    constexpr int pitch = Tile<T>::kPitch;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // The addresses that the lanes give to ldmatrix: of a the quarters top left, bottom left, top right, bottom right;
    // of b both halves of k of eight columns, then of the next eight.
    const std::uint32_t a_at = mma::shared_address(a + (first_row() + lane % 16) * pitch + lane / 16 * 8);
    const std::uint32_t b_at =
        mma::shared_address(b + (first_column() + lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8);
#pragma unroll
    for (int k = 0; k < Tile<T>::kDepth; k += 16) {
      std::uint32_t x[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        mma::load_matrices(x[i], a_at + static_cast<std::uint32_t>(i * 16 * pitch + k) * sizeof(E));
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        std::uint32_t y[4];
        mma::load_matrices(y, b_at + static_cast<std::uint32_t>(j * 8 * pitch + k) * sizeof(E));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          mma::multiply_add<T>(sum[i][j], x[i], y[0], y[1]);
          mma::multiply_add<T>(sum[i][j + 1], x[i], y[2], y[3]);
        }
      }
    }
  }
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto put = f(first_column() + j * 8 + lane % 4 * 2 + half);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          put(first_row() + i * 16 + lane / 4, sum[i][j][half]);
          put(first_row() + i * 16 + lane / 4 + 8, sum[i][j][2 + half]);
        }
      }
  }
};

// ---- any convolution ----

template <class T, bool kWeightGradient>
__global__ void __launch_bounds__(kThreads) product_kernel(const __grid_constant__ Product p) {
  using E = typename Tile<T>::Element;
  using Out = std::conditional_t<kWeightGradient, accumulate_t<T>, T>;
  constexpr int depth = Tile<T>::kDepth, pitch = Tile<T>::kPitch;
  constexpr int at_once = kThreads / depth;  // rows of a tile that all threads read in one go, along k
  constexpr int taps_held = kWeightGradient ? kColumns : depth;
  static_assert(kThreads == kColumns && kRows % at_once == 0 && kColumns % at_once == 0);
  __shared__ alignas(16) E a_tile[kRows * pitch];
  __shared__ alignas(16) E b_tile[kColumns * pitch];
  __shared__ Place taps[taps_held];

  const auto [m0, n0, group, split, k_first, k_end] = p.block(blockIdx.x, kRows, kColumns);
  const int thread = static_cast<int>(threadIdx.x);
  const int along = thread % depth, row = thread / depth;  // of what is read along k
  const E* const a = static_cast<const E*>(p.a) + group * p.a_group;
  const E* const b = static_cast<const E*>(p.b) + group * p.b_group;

  // Taps [first, first + taps_held) of those before `end`.
  const auto note_taps = [&](std::uint32_t first, std::uint32_t end) {
    if (thread < taps_held) taps[thread] = first + thread < end ? p.patches.tap(first + thread) : kNowhere;
  };
  Place pixel = kNowhere;
  if (!kWeightGradient && n0 + thread < p.n) pixel = p.patches.pixel(n0 + thread);

  E a_next[kRows / at_once], b_next[depth];
  const auto fetch = [&](std::uint32_t k0) {
    const std::uint32_t k = k0 + along;
    const bool there = k < k_end;
    const E* const column = a + (there ? p.a_at(k) : 0);
#pragma unroll
    for (int i = 0; i < kRows / at_once; ++i) {
      const std::uint32_t m = m0 + row + i * at_once;
      a_next[i] = there && m < p.m ? column[m * p.a_row] : E(0);
    }
    if (kWeightGradient) pixel = there ? p.patches.pixel(k) : kNowhere;
#pragma unroll
    for (int i = 0; i < depth; ++i) {
      const long long at = p.patches.at(pixel, taps[kWeightGradient ? row + i * at_once : i]);
      b_next[i] = at >= 0 ? b[at] : E(0);
    }
  };
  const auto put_down = [&] {
#pragma unroll
    for (int i = 0; i < kRows / at_once; ++i) a_tile[(row + i * at_once) * pitch + along] = a_next[i];
    if constexpr (kWeightGradient) {
#pragma unroll
      for (int i = 0; i < depth; ++i) b_tile[(row + i * at_once) * pitch + along] = b_next[i];
    } else if constexpr (kTensorCores<T>) {
#pragma unroll
      for (int i = 0; i < depth; i += 8) {
        const auto pair = [&](int l) {
          return b_next[i + l] | static_cast<std::uint32_t>(b_next[i + l + 1]) << 16;
        };
        *reinterpret_cast<uint4*>(b_tile + thread * pitch + i) =
            make_uint4(pair(0), pair(2), pair(4), pair(6));
      }
    } else {
#pragma unroll
      for (int i = 0; i < depth; ++i) b_tile[thread * pitch + i] = b_next[i];
    }
  };

  kWeightGradient ? note_taps(n0, p.n) : note_taps(k_first, k_end);
  __syncthreads();
  fetch(k_first);
  __syncthreads();
  Sums<T> sums;
  for (std::uint32_t k0 = k_first; k0 < k_end; k0 += depth) {
    put_down();
    if (!kWeightGradient) note_taps(k0 + depth, k_end);
    __syncthreads();
    if (k0 + depth < k_end) fetch(k0 + depth);
    sums.multiply(a_tile, b_tile);
    __syncthreads();
  }

  Out* const c = static_cast<Out*>(p.c) + group * p.c_group + split * p.c_split;
  const T* const bias = p.bias ? static_cast<const T*>(p.bias) + group * p.m : nullptr;
  sums.each([&](int column) {
    const std::uint32_t n = n0 + column;
    const bool there = n < p.n;
    Out* const to = c + (there ? p.c_at(n) : 0);
    return [=, &p](int line, auto sum) {
      const std::uint32_t m = m0 + line;
      if (!there || m >= p.m) return;
      if (bias) sum += gpu::to_compute(bias[m]);
      to[m * p.c_row] = gpu::from_compute<Out>(sum);
    };
  });
}

// ---- few channels and filters to a group: depthwise ----

constexpr int kThinThreads = 256;

// A thread computes an element of each row of C. Rows of all groups are counted in blockIdx.y.
template <class T>
__global__ void __launch_bounds__(kThinThreads) thin_kernel(const __grid_constant__ Product p) {
  using C = accumulate_t<T>;
  const std::uint32_t n = blockIdx.x * kThinThreads + threadIdx.x;
  if (n >= p.n) return;
  const Place pixel = p.patches.pixel(n);
  T* const c = static_cast<T*>(p.c) + p.c_at(n);
  for (std::uint32_t line = blockIdx.y; line < p.groups * p.m; line += gridDim.y) {
    const std::uint32_t group = line / p.m, m = line % p.m;
    const T* const a = static_cast<const T*>(p.a) + group * p.a_group + m * p.a_row;
    const T* const b = static_cast<const T*>(p.b) + group * p.b_group;
    C sum = p.bias ? gpu::to_compute(static_cast<const T*>(p.bias)[line]) : C(0);
    for (std::uint32_t k = 0; k < p.k; ++k) {
      const long long at = p.patches.at(pixel, p.patches.tap(k));
      if (at >= 0) sum += gpu::to_compute(a[p.a_at(k)]) * gpu::to_compute(b[at]);
    }
    c[group * p.c_group + m * p.c_row] = gpu::from_compute<T>(sum);
  }
}

// A block sums one element of C, of one part of k.
template <class T>
__global__ void __launch_bounds__(kThinThreads) thin_weight_kernel(const __grid_constant__ Product p) {
  using C = accumulate_t<T>;
  const std::uint32_t split = blockIdx.x % p.splits, element = blockIdx.x / p.splits;
  const std::uint32_t n = element % p.n, m = element / p.n % p.m, group = element / p.n / p.m;
  const std::uint32_t k_first = split * p.k_split, k_end = min(p.k, k_first + p.k_split);
  const T* const a = static_cast<const T*>(p.a) + group * p.a_group + m * p.a_row;
  const T* const b = static_cast<const T*>(p.b) + group * p.b_group;
  const Place tap = p.patches.tap(n);
  C sum = 0;
  for (std::uint32_t k = k_first + threadIdx.x; k < k_end; k += kThinThreads) {
    const long long at = p.patches.at(p.patches.pixel(k), tap);
    if (at >= 0) sum += gpu::to_compute(a[p.a_at(k)]) * gpu::to_compute(b[at]);
  }
  sum = gpu::block_sum(sum);
  if (threadIdx.x == 0)
    static_cast<C*>(p.c)[split * p.c_split + group * p.c_group + m * p.c_row + p.c_at(n)] = sum;
}

// ---- launches ----

constexpr std::int64_t kWantedBlocks =
    1024;  // that keep a GPU busy; parts of a long sum make up for what is missing
constexpr std::int64_t kWantedF32Blocks = 512;  // of which a multiprocessor holds four

std::int64_t tiles_of(const Product& p, int rows, int columns) {
  return gpu::ceil_div(p.n, columns) * gpu::ceil_div(p.m, rows) * p.groups;
}

// The weight's gradient as a sum of parts of k: `launch` makes `tiles` tiles of each, one to a block of the grid it is given.
template <class T, class F>
void in_parts(const Job& job, Product& p, std::int64_t tiles, std::int64_t wanted, std::int64_t step,
              const F& launch) {
  p.split(gpu::ceil_div(wanted, tiles), step);
  const std::int64_t size = job.out().numel();
  const Tensor partial =
      Tensor::allocate({std::int64_t{p.splits}, size}, dtype_of<accumulate_t<T>>, job.out().device());
  p.c = partial.raw_data();
  launch(gpu::blocks_for(job.op, tiles * p.splits, 1));
  fold::sum_cuda(partial, 1, job.out().view({size}), 1, job.accumulate);
}

template <class T, bool kWeightGradient>
void launch_f32(const Job& job, Product& p) {
  const std::int64_t tiles = tiles_of(p, T::kRows, T::kColumns);
  const auto launch = [&](unsigned grid) {
    gpu::launch(job.op, f32_kernel<T, kWeightGradient>, grid, T::kThreads, T::kBytes, p, c_is_in_quads(p));
  };
  if constexpr (kWeightGradient)
    in_parts<float>(job, p, tiles, kWantedF32Blocks, 2 * T::kDepth, launch);
  else
    launch(gpu::blocks_for(job.op, tiles, 1));
}

void run_f32(const Job& job, Product& p) {
  if (job.result == Part::weight)
    p.m <= 32 || p.n <= 32 ? launch_f32<SmallF32Tile, true>(job, p) : launch_f32<F32Tile, true>(job, p);
  else
    p.m <= 32 ? launch_f32<WideF32Tile, false>(job, p) : launch_f32<F32Tile, false>(job, p);
}

template <class T>
void run_typed(const Job& job) {
  Product p = product_of(job);
  const bool thin = job.g.thin();
  if constexpr (std::is_same_v<T, float>)
    if (!thin && fits_f32(p)) return run_f32(job, p);
  const std::int64_t tiles = tiles_of(p, kRows, kColumns);
  if (job.result != Part::weight) {
    if (thin) {
      const std::uint32_t lines = p.groups * p.m;
      gpu::launch(job.op, thin_kernel<T>,
                  dim3(gpu::blocks_for(job.op, p.n, kThinThreads), lines < 65535 ? lines : 65535),
                  kThinThreads, 0, p);
    } else {
      gpu::launch(job.op, product_kernel<T, false>, gpu::blocks_for(job.op, tiles, 1), kThreads, 0, p);
    }
    return;
  }
  // A part is worth a block if it is long enough.
  if (thin)
    in_parts<T>(job, p, job.out().numel(), kWantedBlocks, 4 * kThinThreads,
                [&](unsigned grid) { gpu::launch(job.op, thin_weight_kernel<T>, grid, kThinThreads, 0, p); });
  else
    in_parts<T>(job, p, tiles, kWantedBlocks, 8 * Tile<T>::kDepth,
                [&](unsigned grid) { gpu::launch(job.op, product_kernel<T, true>, grid, kThreads, 0, p); });
}

void run_cuda(const Job& job) {
  if (run_strided(job, run_cuda) || run_flat(job)) return;
  visit_floating(job.op, job.parts[0]->dtype(), [&]<class T>(TypeTag<T>) { run_typed<T>(job); });
}

}  // namespace
}  // namespace ct::convolution

CT_KERNELS(cuda, convolution, CT_CONVOLUTION_KERNELS(convolution::run_cuda))
