#pragma once

#include <cmath>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/math.h>
#include <cotangent/ops/attention/attention_internal.h>
#include <cotangent/ops/engine/rows/additive_mask.cuh>

// Shared parts of the general kernels of attention_cuda.cu: the problem, tiles in shared memory and
// their products, and the scores that come of them.

namespace ct::attention {
namespace {

constexpr int kThreads = 256;

using rows::MaskKind;

// Where the elements of a tensor [batch, heads, length, dim] lie.
struct Place {
  void* data;
  std::int64_t batch, head, row, col;
};

struct Problem {
  std::int64_t batch, heads, kv_heads, queries, keys;
  int dim, value_dim;
  Place q, k, v, out, grad, mask;
  MaskKind mask_kind;
  double scale;
  bool causal;
  std::int64_t causal_offset;
  GeneratorState draw;
  bool drops;
  std::uint32_t drop_last;  // words up to this one are dropped
  double keep;
  void* statistics;  // of each query: the largest score, and log sum exp(score - largest)
  void* delta;
  void *dq, *dk, *dv;  // null where not wanted
};

// Dropout's factor for the probability of (row, j), with draw = p.draw.now(); row counts the queries of all heads.
template <class C>
__device__ __forceinline__ C kept(const Problem& p, const GeneratorState& draw, std::int64_t row,
                                  std::int64_t j) {
  if (!p.drops) return C(1);
  const std::uint32_t word = philox_word(draw, static_cast<std::uint64_t>(row * p.keys + j));
  return word <= p.drop_last ? C(0) : static_cast<C>(p.keep);
}

// Rows [first, first + Rows) of a head into shared memory, filled up with zeros to Rows x Dim.
template <class T, int Rows, int Dim>
__device__ void load_tile(compute_t<T>* tile, const Place& x, std::int64_t batch, std::int64_t head,
                          std::int64_t first, std::int64_t length, int dim) {
  const T* from = static_cast<const T*>(x.data) + batch * x.batch + head * x.head;
  for (int at = threadIdx.x; at < Rows * Dim; at += kThreads) {
    const int r = at / Dim, d = at % Dim;
    const std::int64_t row = first + r;
    tile[r * (Dim + 1) + d] =
        row < length && d < dim ? gpu::to_compute(from[row * x.row + d * x.col]) : compute_t<T>(0);
  }
}

// acc[a][c] += row (ty RA + a) of A times row (tx + 16 c) of B: products along the head dimension.
template <class C, int RA, int RB, int Dim>
__device__ __forceinline__ void dot_tiles(const C* a, const C* b, int dim, C (&acc)[RA][RB]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int r = 0; r < RA; ++r)
#pragma unroll
    for (int c = 0; c < RB; ++c) acc[r][c] = 0;
  const C* rows = a + ty * RA * (Dim + 1);
  const C* cols = b + tx * (Dim + 1);
#pragma unroll 4
  for (int d = 0; d < dim; ++d) {
    C x[RA], y[RB];
#pragma unroll
    for (int r = 0; r < RA; ++r) x[r] = rows[r * (Dim + 1) + d];
#pragma unroll
    for (int c = 0; c < RB; ++c) y[c] = cols[c * 16 * (Dim + 1) + d];
#pragma unroll
    for (int r = 0; r < RA; ++r)
#pragma unroll
      for (int c = 0; c < RB; ++c) acc[r][c] += x[r] * y[c];
  }
}

// acc[r][c] += sum over m of w[(ty R + r) row_step + m step] * b[m, tx + 16 c].
template <class C, int R, int Cols, int Count, int Dim>
__device__ __forceinline__ void mix_tiles(const C* w, int row_step, int step, const C* b, C (&acc)[R][Cols]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const C* weights = w + ty * R * row_step;
  const C* rows = b + tx;
#pragma unroll 4
  for (int m = 0; m < Count; ++m) {
    C x[R];
#pragma unroll
    for (int r = 0; r < R; ++r) x[r] = weights[r * row_step + m * step];
#pragma unroll
    for (int c = 0; c < Cols; ++c) {
      const C y = rows[m * (Dim + 1) + 16 * c];
#pragma unroll
      for (int r = 0; r < R; ++r) acc[r][c] += x[r] * y;
    }
  }
}

// Turns products into scores, masked; -inf where a query does not see a key.
template <class C, int RQ, int RK>
__device__ __forceinline__ void finish_scores(const Problem& p, std::int64_t b, std::int64_t h,
                                              std::int64_t first_q, std::int64_t first_k, C (&s)[RQ][RK]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int r = 0; r < RQ; ++r) {
    const std::int64_t i = first_q + ty * RQ + r;
    const std::int64_t end = i < p.queries ? causal_end(i, p.keys, p.causal, p.causal_offset) : 0;
#pragma unroll
    for (int c = 0; c < RK; ++c) {
      const std::int64_t j = first_k + tx + 16 * c;
      if (j >= end) {
        s[r][c] = -C(INFINITY);
        continue;
      }
      s[r][c] *= static_cast<C>(p.scale);
      if (p.mask_kind == MaskKind::none) continue;
      const C m = rows::mask_value<C>(p.mask_kind, p.mask.data,
                                      b * p.mask.batch + h * p.mask.head + i * p.mask.row + j * p.mask.col);
      // A hidden element counts for nothing, not even where it is NaN.
      s[r][c] = m == -C(INFINITY) ? m : s[r][c] + m;
    }
  }
}

// The maximum over the 16 threads of a row. A NaN must come through.
template <class C>
__device__ __forceinline__ C row_max(C v) {
  return gpu::warp_combine(
      v, [](C a, C b) { return b > a || b != b ? b : a; }, 16);
}

// The tiles of a forward and of a backward block: 16 RQ queries by 16 RK keys, as shared memory allows.
template <class C, int Dim>
struct Tiles {
  static constexpr int kBytes = static_cast<int>(sizeof(C)) * Dim;  // of a row
  static constexpr int RQ = kBytes <= 512 ? 4 : kBytes <= 1024 ? 2 : 1;
  static constexpr int RK = RQ;
  static constexpr std::size_t kForward =
      sizeof(C) * (16 * RQ * (Dim + 1) + 16 * RK * (Dim + 1) + 16 * RQ * (16 * RK + 1));
  static constexpr int R = kBytes <= 256 ? 4 : kBytes <= 512 ? 2 : 1;
  static constexpr std::size_t kBackward = sizeof(C) * (4 * 16 * R * (Dim + 1) + 2 * 16 * R * (16 * R + 1));
};

}  // namespace
}  // namespace ct::attention
