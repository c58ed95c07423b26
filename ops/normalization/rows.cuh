#pragma once

#include <type_traits>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/normalization/normalization_internal.h>
#include <cotangent/ops/engine/rows/elements.cuh>
#include <cotangent/ops/engine/rows/share.cuh>

// The kernels of normalization/normalization_cuda.cuh for rows of whole vectors that fit into registers. A captured step compiles
// this text anew, with formulas in the place of their load and store (core/op/around.h).

namespace ct::normalization {

inline constexpr int kMaxLoads = 4;
inline constexpr int kBackwardWarps = 16;

template <class T, class L>
struct ForwardRows {
  using C = compute_t<T>;
  static constexpr bool kMixed = !std::is_same_v<T, L>;
  const T *x, *residual, *weight, *bias;  // all but x may be null
  const L* low_residual;                  // null unless mixed, and where there is a residual
  L* y;
  T* sum;
  C *mean, *rstd;
  long long rows;
  int columns;
  C eps;

  __device__ __forceinline__ bool adds() const { return residual || (kMixed && low_residual); }
  __device__ __forceinline__ C addend(long long i) const {
    if constexpr (kMixed)
      if (low_residual) return gpu::to_compute(low_residual[i]);
    return gpu::to_compute(residual[i]);
  }
};

template <class T, class L>
struct BackwardRows {
  using C = compute_t<T>;
  static constexpr bool kMixed = !std::is_same_v<T, L>;
  const T *x, *extra, *weight;  // the last two may be null
  const L* g;
  const C *mean, *rstd;
  T* dx;               // may be null
  L* low_dx;           // null unless mixed; may be null
  C *dweight, *dbias;  // [blocks, columns], partial sums; may be null
  long long rows;
  int columns;

  __host__ __device__ __forceinline__ bool wants_dx() const { return dx || (kMixed && low_dx); }
  // The scale of a row, whose slope goes with it: around its mean one element has none.
  __device__ __forceinline__ C scale(long long row, bool centered) const {
    return centered && columns == 1 ? C(0) : __ldg(rstd + row);
  }
};

// One vector of a parameter, or a constant.
template <class T, int N>
__device__ __forceinline__ void load_parameter(const T* p, long long at, float otherwise,
                                               compute_t<T> (&out)[N]) {
  if (p) {
    gpu::Vector<T, N>::load_readonly(p + at).to_compute(out);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) out[j] = otherwise;
  }
}

// The first element of a row, residual and all, which the mean is summed around: far from 0 the mean's
// rounding would count as spread.
template <class T, class L, class Load>
__device__ __forceinline__ compute_t<T> first_of_row(const ForwardRows<T, L>& a, long long offset,
                                                     const Load& load) {
  const compute_t<T> x = gpu::to_compute(load.at(a.x, offset));
  if (!a.adds()) return x;
  return gpu::to_compute(gpu::from_compute<T>(x + a.addend(offset)));
}

// 1 / sqrt(the mean of the squares of a row + eps). squares(scale, i) is the sum of the squares times scale^2.
template <class C, class Squares>
__device__ __forceinline__ C rstd_of(C columns, C eps, const Squares& squares) {
  C square = squares(C(1), 0), rstd = C(1) / sqrt(square / columns + eps);
  if (const C scale = rescue_scale(square, columns, eps); scale != 1)
      [[unlikely]] {  // in all threads or none
    square = squares(scale, 1);
    rstd = scale / sqrt(square / columns + eps * scale * scale);
  }
  return rstd;
}

// The vectors of a thread whose row has threads (0, y) to (blockDim.x - 1, y).
template <int N, int kLoads>
__device__ __forceinline__ rows::Share<N, kLoads> share_of(int columns) {
  return {static_cast<int>(threadIdx.x) * N, static_cast<int>(blockDim.x) * N, columns};
}

// blockDim = (threads of a row, rows): several rows only if each belongs to one warp.
template <bool kCentered, int kLoads, class T, class L, class Load, class Store>
__device__ __forceinline__ void forward_rows(const ForwardRows<T, L>& a, const Load& load,
                                             const Store& store) {
  using C = compute_t<T>;
  using Pack = gpu::Vector<T>;
  constexpr int N = Pack::size;
  __shared__ C slots[3][32];
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= a.rows) return;  // whole warps, and whole blocks where a row has several
  const long long offset = row * a.columns;
  const auto share = share_of<N, kLoads>(a.columns);

  Pack v[kLoads];
  share.each([&](int k, int at) { load(v[k], a.x, offset + at); });
  const auto add = [&]<class R>(const R* residual) {
    gpu::Vector<R, N> r[kLoads];
    share.load(r, residual + offset);
    share.each([&](int k, int at) {
      C p[N], q[N];
      v[k].unpack(p);
      r[k].unpack(q);
#pragma unroll
      for (int j = 0; j < N; ++j) p[j] += q[j];
      v[k] = Pack::from_compute(p);
      v[k].store(a.sum + offset + at);
    });
  };
  if (a.residual) add(a.residual);
  if constexpr (!std::is_same_v<T, L>)
    if (a.low_residual) add(a.low_residual);

  C mean = 0;
  if constexpr (kCentered) {
    const C pivot = first_of_row(a, offset, load);
    share.each([&](int k, int) {
      C e[N];
      v[k].unpack(e);
#pragma unroll
      for (int j = 0; j < N; ++j) mean += e[j] - pivot;
    });
    mean = pivot + gpu::block_combine(mean, 0, slots[0], gpu::Plus{}) / static_cast<C>(a.columns);
  }
  const C rstd = rstd_of(static_cast<C>(a.columns), a.eps, [&](C scale, int i) {
    C square = 0;
    share.each([&](int k, int) {
      C e[N];
      v[k].unpack(e);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const C d = (e[j] - mean) * scale;
        square += d * d;
      }
    });
    return gpu::block_combine(square, 0, slots[1 + i], gpu::Plus{});
  });
  if (threadIdx.x == 0) {
    if constexpr (kCentered) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }

  share.each([&](int k, int at) {
    C e[N], w[N], b[N];
    v[k].unpack(e);
    load_parameter<T, N>(a.weight, at, 1, w);
    load_parameter<T, N>(a.bias, at, 0, b);
#pragma unroll
    for (int j = 0; j < N; ++j) e[j] = (e[j] - mean) * rstd * w[j] + b[j];
    store(gpu::Vector<L, N>::from_compute(e), a.y, offset + at);
  });
}
template <bool kCentered, class T, class L, int kLoads>
__global__ void __launch_bounds__(1024) rows_forward(const ForwardRows<T, L> a) {
  gpu::wait_for_previous();
  forward_rows<kCentered, kLoads>(a, rows::FromMemory{}, rows::ToMemory{});
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
template <bool kCentered, int kLoads, class T, class L, class Load, class Store>
__device__ __forceinline__ void backward_rows(const BackwardRows<T, L>& a, const Load& load,
                                              const Store& store) {
  using C = compute_t<T>;
  using Pack = gpu::Vector<T>;
  constexpr int N = Pack::size;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ C slots[2][kBackwardWarps][2];
  const auto share = share_of<N, kLoads>(a.columns);
  C dw[kLoads * N], db[kCentered ? kLoads * N : 1];
#pragma unroll
  for (int i = 0; i < kLoads * N; ++i) {
    dw[i] = 0;
    if constexpr (kCentered) db[i] = 0;
  }

  // A thread's part of a row. Where registers suffice the next one is on its way while this one is worked
  // on.
  struct Part {
    gpu::Vector<T, N> x[kLoads], more[kLoads];
    gpu::Vector<L, N> g[kLoads];
    C mean, rstd;
  };
  constexpr bool kAhead = sizeof(Part) + 2 * N * kLoads * sizeof(C) < 256;
  const auto fetch = [&](Part& part, long long row) {
    const long long offset = row * a.columns;
    share.each([&](int k, int at) {
      part.x[k] = Pack::load_streaming(a.x + offset + at);
      load(part.g[k], a.g, offset + at);
      if (a.extra) part.more[k] = Pack::load_streaming(a.extra + offset + at);
    });
    part.mean = kCentered ? __ldg(a.mean + row) : C(0);
    part.rstd = a.scale(row, kCentered);
  };

  const long long step = static_cast<long long>(gridDim.x) * blockDim.y;
  int turn = 0;
  Part next;
  long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (kAhead && row < a.rows) fetch(next, row);
  for (; row < a.rows; row += step, turn ^= 1) {
    if constexpr (!kAhead) fetch(next, row);
    Part part = next;
    if (kAhead && row + step < a.rows) fetch(next, row + step);
    auto& [x, more, g, mean, rstd] = part;
    const long long offset = row * a.columns;
    const T* weight = a.weight;
    asm volatile("" : "+l"(weight));  // or its vectors would be kept in registers, which are needed elsewhere
    C sum = 0, dot = 0;
    share.each([&](int k, int at) {
      C xs[N], gs[N], w[N];
      x[k].unpack(xs);
      g[k].unpack(gs);
      load_parameter<T, N>(weight, at, 1, w);
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
    });
    if (!a.wants_dx()) continue;
    sum_over_row<kCentered>(sum, dot, slots[turn]);
    const C average = sum / static_cast<C>(a.columns), slope = dot / static_cast<C>(a.columns);
    share.each([&](int k, int at) {
      C xs[N], gs[N], w[N];
      x[k].unpack(xs);
      g[k].unpack(gs);
      load_parameter<T, N>(weight, at, 1, w);
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
      if (std::is_same_v<T, L> || a.dx) store(Pack::from_compute(xs), a.dx, offset + at);
      if constexpr (!std::is_same_v<T, L>)
        if (a.low_dx) gpu::Vector<L, N>::from_compute(xs).store(a.low_dx + offset + at);
    });
  }

  const auto write = [&](C* to, const auto& values) {
    if (threadIdx.y != 0) return;
    to += static_cast<long long>(blockIdx.x) * a.columns;
    share.each([&](int k, int at) {
#pragma unroll
      for (int j = 0; j < N; ++j) to[at + j] = values[k * N + j];
    });
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

template <bool kCentered, class T, class L, int kLoads>
__global__ void __launch_bounds__(kBackwardWarps * 32, 1) rows_backward(const BackwardRows<T, L> a) {
  gpu::wait_for_previous();
  backward_rows<kCentered, kLoads>(a, rows::FromMemory{}, rows::ToMemory{});
}

}  // namespace ct::normalization
