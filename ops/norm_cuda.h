#pragma once

#include <algorithm>
#include <type_traits>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/cuda/blas.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/block_reduce_cuda.h>
#include <cotangent/ops/norm_internal.h>

// layer_norm and rms_norm on CUDA: every element is read once and written once. For .cu files only.
//
// - rows_forward: a row lies in the registers of 1 to 32 warps, up to four vectors of 16 bytes per thread.
// - rows_backward: the same with x and g, for 1 to 16 warps. Few, large blocks go over many rows each, and
// every
//   thread collects the columns' sums that dweight and dbias are made of in registers; at the end a block has
//   one pair of partial sums per column. A row's warps meet at a barrier of their own, so that the rows of a
//   block run independently of each other.
// - finish_sums: adds up the blocks' partial sums in their order.
// - long_*: rows that are too long for registers. They are read again out of L2.
//
// Rows that are no multiple of 16 bytes are read element by element.

namespace ct::norm {

inline constexpr int kMaxLoads = 4;
inline constexpr int kBackwardWarps = 16;
inline constexpr int kLongThreads = 512;
inline constexpr int kSumRows = 16;  // threads that share a column in the sums over rows

template <class T>
struct ForwardRows {
  using C = compute_t<T>;
  const T *x, *residual, *weight, *bias;  // all but x may be null
  T *y, *sum;
  C *mean, *rstd;
  long long rows;
  int columns;
  C eps;
};

template <class T>
struct BackwardRows {
  using C = compute_t<T>;
  const T *x, *g, *extra, *weight;  // the last two may be null
  const C *mean, *rstd;
  T* dx;               // may be null
  C *dweight, *dbias;  // [blocks, columns], partial sums; may be null
  long long rows;
  int columns;
};

// One vector of a row as it was loaded. It stays packed from one use to the next: the compiler, which would
// rather take it apart once and keep a register per element, is told that it may have changed.
template <class T, int N>
struct Held {
  using Pack = gpu::Packed<T, N>;
  typename Pack::Word word;

  __device__ __forceinline__ void load(const T* from) {
    word = __ldcs(reinterpret_cast<const typename Pack::Word*>(from));
  }
  __device__ __forceinline__ void set(const Pack& pack) {
    word = *reinterpret_cast<const typename Pack::Word*>(&pack);
  }
  __device__ __forceinline__ void unpack(compute_t<T> (&out)[N]) {
    if constexpr (sizeof(word) == 16)
      asm volatile("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w));
    reinterpret_cast<const Pack*>(&word)->to_compute(out);
  }
};

// One vector of a parameter, or a constant.
template <class T, int N>
__device__ __forceinline__ void load_parameter(const T* p, int at, float otherwise, compute_t<T> (&out)[N]) {
  if (p) {
    gpu::Packed<T, N>::load_readonly(p + at).to_compute(out);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) out[j] = otherwise;
  }
}

// The sum over the threads of a block of whole warps, in all of them; `slots` holds a value per warp and is
// used once.
template <class C>
__device__ __forceinline__ C sum_in_all(C value, C* slots) {
  value = gpu::warp_sum(value);
  const int warps = blockDim.x / 32;
  if (warps == 1) return value;
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = value;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  return gpu::warp_sum(lane < warps ? slots[lane] : C(0));
}

// blockDim = (threads of a row, rows): several rows only if each belongs to one warp.
template <bool kCentered, class T, int N, int kLoads>
__global__ void __launch_bounds__(1024) rows_forward(const ForwardRows<T> a) {
  using C = compute_t<T>;
  using Pack = gpu::Packed<T, N>;
  __shared__ C slots[2][32];
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= a.rows) return;  // whole warps, and whole blocks where a row has several
  const long long offset = row * a.columns;
  const auto column = [&](int k) { return static_cast<int>(threadIdx.x + k * blockDim.x) * N; };

  Held<T, N> v[kLoads];
#pragma unroll
  for (int k = 0; k < kLoads; ++k)
    if (column(k) < a.columns) v[k].load(a.x + offset + column(k));
  if (a.residual) {
    Held<T, N> r[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      if (column(k) < a.columns) r[k].load(a.residual + offset + column(k));
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (column(k) >= a.columns) continue;
      C p[N], q[N];
      v[k].unpack(p);
      r[k].unpack(q);
#pragma unroll
      for (int j = 0; j < N; ++j) p[j] += q[j];
      const Pack rounded = Pack::from_compute(p);
      rounded.store(a.sum + offset + column(k));
      v[k].set(rounded);
    }
  }

  C mean = 0;
  if constexpr (kCentered) {
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (column(k) >= a.columns) continue;
      C e[N];
      v[k].unpack(e);
#pragma unroll
      for (int j = 0; j < N; ++j) mean += e[j];
    }
    mean = sum_in_all(mean, slots[0]) / static_cast<C>(a.columns);
  }
  C square = 0;
#pragma unroll
  for (int k = 0; k < kLoads; ++k) {
    if (column(k) >= a.columns) continue;
    C e[N];
    v[k].unpack(e);
#pragma unroll
    for (int j = 0; j < N; ++j) square += (e[j] - mean) * (e[j] - mean);
  }
  const C rstd = C(1) / sqrt(sum_in_all(square, slots[1]) / static_cast<C>(a.columns) + a.eps);
  if (threadIdx.x == 0) {
    if constexpr (kCentered) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }

#pragma unroll
  for (int k = 0; k < kLoads; ++k) {
    if (column(k) >= a.columns) continue;
    C e[N], w[N], b[N];
    v[k].unpack(e);
    load_parameter<T, N>(a.weight, column(k), 1, w);
    load_parameter<T, N>(a.bias, column(k), 0, b);
#pragma unroll
    for (int j = 0; j < N; ++j) e[j] = (e[j] - mean) * rstd * w[j] + b[j];
    Pack::from_compute(e).store(a.y + offset + column(k));
  }
}

// The sums over the warps of a row: those with the same threadIdx.y. Two sets of slots take turns, so that
// one barrier is enough: who writes a set again has passed the barrier that follows its readers.
template <bool kBoth, class C>
__device__ __forceinline__ void sum_over_row(C& first, C& second, C (*slots)[2]) {
  if constexpr (kBoth) first = gpu::warp_sum(first);
  second = gpu::warp_sum(second);
  const int warps = blockDim.x / 32;
  if (warps == 1) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  C(*mine)[2] = slots + threadIdx.y * warps;
  if (lane == 0) {
    mine[warp][0] = first;
    mine[warp][1] = second;
  }
  // Barrier 0 belongs to __syncthreads; there are at most eight rows of several warps.
  asm volatile("bar.sync %0, %1;" ::"r"(static_cast<int>(threadIdx.y) + 1), "r"(static_cast<int>(blockDim.x))
               : "memory");
  if constexpr (kBoth) first = gpu::warp_sum(lane < warps ? mine[lane][0] : C(0));
  second = gpu::warp_sum(lane < warps ? mine[lane][1] : C(0));
}

// Adds the values of all rows of the block, thread by thread, and leaves the sums in row 0. `memory` holds
// the values of half of the rows.
template <int kCount, class C>
__device__ __forceinline__ void sum_rows_of_block(C (&values)[kCount], C* memory) {
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    const unsigned slot = (threadIdx.y % half) * blockDim.x + threadIdx.x;
    const unsigned size = half * blockDim.x;
    if (threadIdx.y >= half && threadIdx.y < 2 * half) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) memory[i * size + slot] = values[i];
    }
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[i] += memory[i * size + slot];
    }
  }
}

// blockDim = (threads of a row, rows), kBackwardWarps warps in all.
template <bool kCentered, class T, int N, int kLoads>
__global__ void __launch_bounds__(kBackwardWarps * 32, 1) rows_backward(const BackwardRows<T> a) {
  using C = compute_t<T>;
  using Pack = gpu::Packed<T, N>;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ C slots[2][kBackwardWarps][2];
  const auto column = [&](int k) { return static_cast<int>(threadIdx.x + k * blockDim.x) * N; };
  C dw[kLoads * N], db[kCentered ? kLoads * N : 1];
#pragma unroll
  for (int i = 0; i < kLoads * N; ++i) {
    dw[i] = 0;
    if constexpr (kCentered) db[i] = 0;
  }

  const long long step = static_cast<long long>(gridDim.x) * blockDim.y;
  int turn = 0;
  for (long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y; row < a.rows;
       row += step, turn ^= 1) {
    const long long offset = row * a.columns;
    const T* weight = a.weight;
    asm volatile("" : "+l"(weight));  // or its vectors would be kept in registers, which are needed elsewhere
    Held<T, N> x[kLoads], g[kLoads], more[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      if (column(k) < a.columns) {
        x[k].load(a.x + offset + column(k));
        g[k].load(a.g + offset + column(k));
        if (a.extra) more[k].load(a.extra + offset + column(k));
      }
    const C mean = kCentered ? __ldg(a.mean + row) : C(0), rstd = __ldg(a.rstd + row);
    C sum = 0, dot = 0;
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (column(k) >= a.columns) continue;
      C xs[N], gs[N], w[N];
      x[k].unpack(xs);
      g[k].unpack(gs);
      load_parameter<T, N>(weight, column(k), 1, w);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const C hat = (xs[j] - mean) * rstd, scaled = gs[j] * w[j];
        if constexpr (kCentered) {
          sum += scaled;
          db[k * N + j] += gs[j];
        }
        dot += scaled * hat;
        dw[k * N + j] += gs[j] * hat;
      }
    }
    if (!a.dx) continue;
    sum_over_row<kCentered>(sum, dot, slots[turn]);
    const C average = sum / static_cast<C>(a.columns), slope = dot / static_cast<C>(a.columns);
#pragma unroll
    for (int k = 0; k < kLoads; ++k) {
      if (column(k) >= a.columns) continue;
      C xs[N], gs[N], w[N];
      x[k].unpack(xs);
      g[k].unpack(gs);
      load_parameter<T, N>(weight, column(k), 1, w);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const C hat = (xs[j] - mean) * rstd;
        xs[j] = (gs[j] * w[j] - average - hat * slope) * rstd;
      }
      if (a.extra) {
        more[k].unpack(gs);
#pragma unroll
        for (int j = 0; j < N; ++j) xs[j] += gs[j];
      }
      Pack::from_compute(xs).store(a.dx + offset + column(k));
    }
  }

  const auto write = [&](C* to, const auto& values) {
    if (threadIdx.y != 0) return;
    to += static_cast<long long>(blockIdx.x) * a.columns;
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      if (column(k) < a.columns) {
#pragma unroll
        for (int j = 0; j < N; ++j) to[column(k) + j] = values[k * N + j];
      }
  };
  if (a.dweight) {
    sum_rows_of_block(dw, reinterpret_cast<C*>(memory));
    write(a.dweight, dw);
  }
  if constexpr (kCentered) {
    if (a.dbias) {
      sum_rows_of_block(db, reinterpret_cast<C*>(memory));
      write(a.dbias, db);
    }
  }
}

// out (+)= the sum of `count` partial sums per column; blockIdx.y chooses dweight or dbias. blockDim = (32,
// kSumRows).
template <class T>
__global__ void finish_sums(const compute_t<T>* first, const compute_t<T>* second, int count, int columns,
                            T* first_out, T* second_out, bool first_adds, bool second_adds) {
  using C = compute_t<T>;
  __shared__ C shared[kSumRows][33];
  const C* from = blockIdx.y ? second : first;
  T* out = blockIdx.y ? second_out : first_out;
  const int column = static_cast<int>(blockIdx.x) * 32 + threadIdx.x;
  C sum = 0;
  if (from && column < columns) {
#pragma unroll 4
    for (int i = threadIdx.y; i < count; i += kSumRows)
      sum += from[static_cast<long long>(i) * columns + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || !from || column >= columns) return;
#pragma unroll
  for (int i = 1; i < kSumRows; ++i) sum += shared[i][threadIdx.x];
  if (blockIdx.y ? second_adds : first_adds) sum += gpu::to_compute(out[column]);
  out[column] = gpu::from_compute<T>(sum);
}

// ---- long rows -------------------------------------------------------------------------------------------

template <class C>
__device__ __forceinline__ C block_sum_in_all(C value) {
  __shared__ C result;
  value = gpu::block_sum(value);
  __syncthreads();  // the result of an earlier call may still be read
  if (threadIdx.x == 0) result = value;
  __syncthreads();
  return result;
}

// One block per row; blockDim.y = 1.
template <bool kCentered, class T>
__global__ void __launch_bounds__(kLongThreads) long_forward(const ForwardRows<T> a) {
  using C = compute_t<T>;
  const long long row = blockIdx.x, offset = row * a.columns;
  const T* x = a.x + offset;
  C mean = 0, square = 0;
  if (a.residual) {
    for (int c = threadIdx.x; c < a.columns; c += kLongThreads)
      a.sum[offset + c] =
          gpu::from_compute<T>(gpu::to_compute(x[c]) + gpu::to_compute(a.residual[offset + c]));
    x = a.sum + offset;  // every thread reads back what it wrote
  }
  if constexpr (kCentered) {
#pragma unroll 4
    for (int c = threadIdx.x; c < a.columns; c += kLongThreads) mean += gpu::to_compute(x[c]);
    mean = block_sum_in_all(mean) / static_cast<C>(a.columns);
  }
#pragma unroll 4
  for (int c = threadIdx.x; c < a.columns; c += kLongThreads) {
    const C d = gpu::to_compute(x[c]) - mean;
    square += d * d;
  }
  const C rstd = C(1) / sqrt(block_sum_in_all(square) / static_cast<C>(a.columns) + a.eps);
  if (threadIdx.x == 0) {
    if constexpr (kCentered) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
#pragma unroll 4
  for (int c = threadIdx.x; c < a.columns; c += kLongThreads) {
    C w[1], b[1];
    load_parameter<T, 1>(a.weight, c, 1, w);
    load_parameter<T, 1>(a.bias, c, 0, b);
    a.y[offset + c] = gpu::from_compute<T>((gpu::to_compute(x[c]) - mean) * rstd * w[0] + b[0]);
  }
}

template <bool kCentered, class T>
__global__ void __launch_bounds__(kLongThreads) long_backward(const BackwardRows<T> a) {
  using C = compute_t<T>;
  const long long row = blockIdx.x, offset = row * a.columns;
  const C mean = kCentered ? a.mean[row] : C(0), rstd = a.rstd[row];
  C sum = 0, dot = 0, w[1];
#pragma unroll 4
  for (int c = threadIdx.x; c < a.columns; c += kLongThreads) {
    load_parameter<T, 1>(a.weight, c, 1, w);
    const C scaled = gpu::to_compute(a.g[offset + c]) * w[0];
    sum += scaled;
    dot += scaled * (gpu::to_compute(a.x[offset + c]) - mean) * rstd;
  }
  const C average = kCentered ? block_sum_in_all(sum) / static_cast<C>(a.columns) : C(0);
  const C slope = block_sum_in_all(dot) / static_cast<C>(a.columns);
  for (int c = threadIdx.x; c < a.columns; c += kLongThreads) {
    load_parameter<T, 1>(a.weight, c, 1, w);
    const C hat = (gpu::to_compute(a.x[offset + c]) - mean) * rstd;
    const C more = a.extra ? gpu::to_compute(a.extra[offset + c]) : C(0);
    const C scaled = gpu::to_compute(a.g[offset + c]) * w[0];
    a.dx[offset + c] = gpu::from_compute<T>((scaled - average - hat * slope) * rstd + more);
  }
}

// The partial sums of 32 columns over the rows of slab blockIdx.y. blockDim = (32, kSumRows).
template <bool kCentered, class T>
__global__ void long_sums(const BackwardRows<T> a) {
  using C = compute_t<T>;
  __shared__ C shared[2][kSumRows][33];
  const int column = static_cast<int>(blockIdx.x) * 32 + threadIdx.x;
  C dw = 0, db = 0;
  const long long step = static_cast<long long>(gridDim.y) * kSumRows;
  for (long long row = static_cast<long long>(blockIdx.y) * kSumRows + threadIdx.y;
       row < a.rows && column < a.columns; row += step) {
    const C g = gpu::to_compute(a.g[row * a.columns + column]);
    const C x = gpu::to_compute(a.x[row * a.columns + column]);
    dw += g * (x - (kCentered ? a.mean[row] : C(0))) * a.rstd[row];
    db += g;
  }
  shared[0][threadIdx.y][threadIdx.x] = dw;
  shared[1][threadIdx.y][threadIdx.x] = db;
  __syncthreads();
  if (threadIdx.y > 1 || column >= a.columns) return;
  C* to = threadIdx.y ? a.dbias : a.dweight;
  if (!to) return;
  C sum = 0;
#pragma unroll
  for (int i = 0; i < kSumRows; ++i) sum += shared[threadIdx.y][i][threadIdx.x];
  to[static_cast<long long>(blockIdx.y) * a.columns + column] = sum;
}

// ---- choosing --------------------------------------------------------------------------------------------

inline bool vectors(const Tensor& t) { return !t.defined() || gpu::is_aligned(t.raw_data(), 16); }

/// How `units` vectors are shared out: over as few warps as hold them with kMaxLoads each.
struct Share {
  int warps = 1, loads = 1;

  Share(long long units, bool power_of_two) {
    warps = static_cast<int>(gpu::ceil_div(units, 32 * kMaxLoads));
    if (power_of_two)
      for (int w = 1;; w *= 2)
        if (w >= warps) {
          warps = w;
          break;
        }
    loads = static_cast<int>(gpu::ceil_div(units, 32 * warps));
  }
};

// Calls go(loads as a constant, elements per vector as a constant). Single elements come in ones and fours.
template <class T, class Go>
void with_loads(bool packs, int loads, const Go& go) {
  using std::integral_constant;
  constexpr int kPack = gpu::Packed<T>::size;
  if (!packs)
    return loads == 1 ? go(integral_constant<int, 1>{}, integral_constant<int, 1>{})
                      : go(integral_constant<int, 4>{}, integral_constant<int, 1>{});
  if (loads == 1) return go(integral_constant<int, 1>{}, integral_constant<int, kPack>{});
  if (loads == 2) return go(integral_constant<int, 2>{}, integral_constant<int, kPack>{});
  if (loads == 3) return go(integral_constant<int, 3>{}, integral_constant<int, kPack>{});
  go(integral_constant<int, 4>{}, integral_constant<int, kPack>{});
}

template <class T>
T* pointer(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.raw_data()) : nullptr;
}

template <bool kCentered, class T>
void launch_forward(const ForwardCall& call) {
  using C = compute_t<T>;
  const long long rows = call.layout.rows, columns = call.layout.columns;
  const ForwardRows<T> a{pointer<T>(call.x),        pointer<T>(call.residual), pointer<T>(call.weight),
                         pointer<T>(call.bias),     pointer<T>(call.y),        pointer<T>(call.sum),
                         pointer<C>(call.mean),     pointer<C>(call.rstd),     rows,
                         static_cast<int>(columns), static_cast<C>(call.eps)};
  const bool packs = columns % gpu::Packed<T>::size == 0 && vectors(call.x) && vectors(call.residual) &&
                     vectors(call.weight) && vectors(call.bias) && vectors(call.y) && vectors(call.sum);
  const Share share(packs ? columns / gpu::Packed<T>::size : columns, false);
  if (share.warps > 32)
    return gpu::launch(call.op, long_forward<kCentered, T>, gpu::blocks_for(call.op, rows, 1), kLongThreads,
                       0, a);
  const int together = share.warps == 1 ? 4 : 1;
  with_loads<T>(packs, share.loads, [&](auto loads, auto n) {
    gpu::launch(call.op, rows_forward<kCentered, T, n(), loads()>, gpu::blocks_for(call.op, rows, together),
                dim3(static_cast<unsigned>(32 * share.warps), static_cast<unsigned>(together)), 0, a);
  });
}

template <bool kCentered, class T>
void launch_backward(const BackwardCall& call) {
  using C = compute_t<T>;
  const long long rows = call.layout.rows, columns = call.layout.columns;
  BackwardRows<T> a{pointer<T>(call.x),
                    pointer<T>(call.g),
                    pointer<T>(call.extra),
                    pointer<T>(call.weight),
                    pointer<C>(call.mean),
                    pointer<C>(call.rstd),
                    pointer<T>(call.dx),
                    nullptr,
                    nullptr,
                    rows,
                    static_cast<int>(columns)};
  const bool packs = columns % gpu::Packed<T>::size == 0 && vectors(call.x) && vectors(call.g) &&
                     vectors(call.extra) && vectors(call.weight) && vectors(call.dx);
  const Share share(packs ? columns / gpu::Packed<T>::size : columns, true);
  const bool longer = share.warps > kBackwardWarps;
  const unsigned together = longer ? 1 : static_cast<unsigned>(kBackwardWarps / share.warps);
  // One block per multiprocessor; slabs of at least 64 rows for the sums over long rows.
  const auto blocks = static_cast<unsigned>(
      longer ? std::min<long long>(64, gpu::ceil_div(rows, 64))
             : std::min<long long>(gpu::multiprocessors(), gpu::ceil_div(rows, together)));
  const std::size_t each = static_cast<std::size_t>(blocks) * static_cast<std::size_t>(columns);
  const bool want_weight = call.dweight.defined(), want_bias = call.dbias.defined();
  const gpu::Workspace workspace((want_weight + want_bias) * each * sizeof(C));
  if (want_weight) a.dweight = static_cast<C*>(workspace.data());
  if (want_bias) a.dbias = static_cast<C*>(workspace.data()) + (want_weight ? each : 0);

  if (longer) {
    if (a.dx)
      gpu::launch(call.op, long_backward<kCentered, T>, gpu::blocks_for(call.op, rows, 1), kLongThreads, 0,
                  a);
    if (want_weight || want_bias)
      gpu::launch(call.op, long_sums<kCentered, T>,
                  dim3(static_cast<unsigned>(gpu::ceil_div(columns, 32)), blocks), dim3(32, kSumRows), 0, a);
  } else {
    with_loads<T>(packs, share.loads, [&](auto loads, auto n) {
      const std::size_t memory = want_weight || want_bias
                                     ? static_cast<std::size_t>(together / 2) * 32 *
                                           static_cast<std::size_t>(share.warps) *
                                           static_cast<std::size_t>(loads() * n()) * sizeof(C)
                                     : 0;
      gpu::launch(call.op, rows_backward<kCentered, T, n(), loads()>, blocks,
                  dim3(static_cast<unsigned>(32 * share.warps), together), memory, a);
    });
  }
  if (want_weight || want_bias)
    gpu::launch(call.op, finish_sums<T>, dim3(static_cast<unsigned>(gpu::ceil_div(columns, 32)), 2),
                dim3(32, kSumRows), 0, a.dweight, a.dbias, static_cast<int>(blocks),
                static_cast<int>(columns), pointer<T>(call.dweight), pointer<T>(call.dbias),
                call.accumulate_weight, call.accumulate_bias);
}

template <bool kCentered, bool kAdd>
void forward_cuda(const Forward& f) {
  const NoGrad guard;
  const ForwardCall call(f, {kCentered, kAdd});
  if (call.y.numel() == 0) {
    for (Tensor t : {call.mean, call.rstd})
      if (t.defined() && t.numel() > 0) t.zero_();
    return;
  }
  CT_CHECK(call.layout.columns <= 0x7fffffff, ShapeError, call.op, "a row has ", call.layout.columns,
           " elements; on CUDA at most 2147483647 are possible");
  visit_floating(call.op, call.y.dtype(), [&]<class T>(TypeTag<T>) { launch_forward<kCentered, T>(call); });
}

template <bool kCentered, bool kAdd>
void backward_cuda(const Backward& b) {
  const BackwardCall call(b, {kCentered, kAdd});
  if (!call.work) return;
  visit_floating(call.op, call.g.dtype(), [&]<class T>(TypeTag<T>) { launch_backward<kCentered, T>(call); });
}

}  // namespace ct::norm
