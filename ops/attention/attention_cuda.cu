#include <cmath>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/additive_mask_cuda.h>
#include <cotangent/ops/attention/attention_kernels.h>
#include <cotangent/ops/attention/attention_mma_internal.h>
#include <cotangent/ops/block_reduce_cuda.h>
#include <cotangent/ops/copy/copy_kernels.h>

// Attention on CUDA for every dtype, layout, mask and head dimension up to 256. A block of 16 x 16 threads
// works on tiles of queries and keys in shared memory, in f32 (f64 for f64). Thread (ty, tx) owns the scores
// of neighbouring rows ty R, ty R + 1, ... and of the columns tx, tx + 16, ...; a row of scores lies in half
// a warp. Every sum has one owner and one order: no atomics.

namespace ct::attention {
namespace {

constexpr int kThreads = 256;

using gpu::MaskKind;

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
  void* lse;
  void* delta;
  void *dq, *dk, *dv;  // null where not wanted
};

// What the probability of (row, j) is multiplied by; row counts all queries of all heads and batches.
template <class C>
__device__ __forceinline__ C kept(const Problem& p, std::int64_t row, std::int64_t j) {
  if (!p.drops) return C(1);
  const std::uint32_t word = philox_word(p.draw, static_cast<std::uint64_t>(row * p.keys + j));
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
      const C m = gpu::mask_value<C>(p.mask_kind, p.mask.data,
                                     b * p.mask.batch + h * p.mask.head + i * p.mask.row + j * p.mask.col);
      // What a bool mask hides counts for nothing, not even where it is NaN.
      s[r][c] = p.mask_kind == MaskKind::boolean && m != C(0) ? m : s[r][c] + m;
    }
  }
}

// Sums and maxima over the 16 threads of a row.
template <class C>
__device__ __forceinline__ C row_sum(C v) {
#pragma unroll
  for (int o = 8; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
template <class C>
__device__ __forceinline__ C row_max(C v) {
#pragma unroll
  for (int o = 8; o > 0; o /= 2) {
    const C w = __shfl_xor_sync(~0u, v, o);
    v = w > v || w != w ? w : v;  // a NaN must come through
  }
  return v;
}

__device__ __forceinline__ float exp_of(float x) { return expf(x); }
__device__ __forceinline__ double exp_of(double x) { return exp(x); }
__device__ __forceinline__ float log_of(float x) { return logf(x); }
__device__ __forceinline__ double log_of(double x) { return log(x); }

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

template <class T, int Dim>
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ Problem p) {
  using C = compute_t<T>;
  constexpr int RQ = Tiles<C, Dim>::RQ, RK = Tiles<C, Dim>::RK, BQ = 16 * RQ, BK = 16 * RK, Cols = Dim / 16;
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const kv = qs + BQ * (Dim + 1);
  C* const ps = kv + BK * (Dim + 1);

  const std::int64_t tiles = gpu::ceil_div(p.queries, BQ);
  // The last queries see the most keys: they begin first.
  const std::int64_t first_q = (tiles - 1 - blockIdx.x % tiles) * BQ;
  const std::int64_t head = blockIdx.x / tiles, b = head / p.heads, h = head % p.heads;
  const std::int64_t kv_head = h / (p.heads / p.kv_heads);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;

  load_tile<T, BQ, Dim>(qs, p.q, b, h, first_q, p.queries, p.dim);
  C acc[RQ][Cols], max[RQ], sum[RQ];
#pragma unroll
  for (int r = 0; r < RQ; ++r) {
    max[r] = -C(INFINITY);
    sum[r] = 0;
#pragma unroll
    for (int c = 0; c < Cols; ++c) acc[r][c] = 0;
  }
  const std::int64_t last_q = min(first_q + BQ, p.queries) - 1;
  const std::int64_t end = causal_end(last_q, p.keys, p.causal, p.causal_offset);
  for (std::int64_t first_k = 0; first_k < end; first_k += BK) {
    __syncthreads();
    load_tile<T, BK, Dim>(kv, p.k, b, kv_head, first_k, p.keys, p.dim);
    __syncthreads();
    C s[RQ][RK];
    dot_tiles<C, RQ, RK, Dim>(qs, kv, p.dim, s);
    finish_scores(p, b, h, first_q, first_k, s);
#pragma unroll
    for (int r = 0; r < RQ; ++r) {
      C highest = max[r];
#pragma unroll
      for (int c = 0; c < RK; ++c) highest = s[r][c] > highest || s[r][c] != s[r][c] ? s[r][c] : highest;
      highest = row_max(highest);
      const C base = highest == -C(INFINITY) ? C(0) : highest;  // nothing seen so far: all exp are 0
      const C shrink = exp_of(max[r] - base);
      C added = 0;
      const std::int64_t i = first_q + ty * RQ + r;
#pragma unroll
      for (int c = 0; c < RK; ++c) {
        const C e = exp_of(s[r][c] - base);
        added += e;
        ps[(ty * RQ + r) * (BK + 1) + tx + 16 * c] =
            e * kept<C>(p, head * p.queries + i, first_k + tx + 16 * c);
      }
      sum[r] = sum[r] * shrink + row_sum(added);
      max[r] = highest;
#pragma unroll
      for (int c = 0; c < Cols; ++c) acc[r][c] *= shrink;
    }
    __syncthreads();
    load_tile<T, BK, Dim>(kv, p.v, b, kv_head, first_k, p.keys, p.value_dim);
    __syncthreads();
    mix_tiles<C, RQ, Cols, BK, Dim>(ps, BK + 1, 1, kv, acc);
  }
#pragma unroll
  for (int r = 0; r < RQ; ++r) {
    const std::int64_t i = first_q + ty * RQ + r;
    if (i >= p.queries) continue;
    const bool blind = max[r] == -C(INFINITY);
    const C factor = blind ? C(0) : C(1) / sum[r];
    T* to = static_cast<T*>(p.out.data) + (head * p.queries + i) * p.value_dim;
#pragma unroll
    for (int c = 0; c < Cols; ++c)
      if (tx + 16 * c < p.value_dim) to[tx + 16 * c] = gpu::from_compute<T>(acc[r][c] * factor);
    if (tx == 0)
      static_cast<C*>(p.lse)[head * p.queries + i] = blind ? -C(INFINITY) : max[r] + log_of(sum[r]);
  }
}

// delta = sum of grad * out over the values of a query: a warp per query.
template <class T>
__global__ void __launch_bounds__(kThreads) delta_kernel(const __grid_constant__ Problem p) {
  using C = compute_t<T>;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (row >= p.batch * p.heads * p.queries) return;
  const std::int64_t i = row % p.queries, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
  const auto at = [&](const Place& x) {
    return static_cast<const T*>(x.data) + b * x.batch + h * x.head + i * x.row;
  };
  const T *g = at(p.grad), *y = at(p.out);
  C sum = 0;
  for (int d = threadIdx.x % 32; d < p.value_dim; d += 32)
    sum += gpu::to_compute(g[d * p.grad.col]) * gpu::to_compute(y[d * p.out.col]);
  sum = gpu::warp_sum(sum);
  if (threadIdx.x % 32 == 0) static_cast<C*>(p.delta)[row] = sum;
}

// From scores to probabilities, and from dP = grad v' to the gradient of the scores. `s` becomes what dv
// takes (the probability after dropout), `dp` the gradient of the scores.
template <class C, int R>
__device__ __forceinline__ void score_gradients(const Problem& p, std::int64_t head, std::int64_t first_q,
                                                std::int64_t first_k, C (&s)[R][R], C (&dp)[R][R]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t i = first_q + ty * R + r;
    const bool inside = i < p.queries;
    const std::int64_t row = head * p.queries + i;
    const C lse = inside ? static_cast<const C*>(p.lse)[row] : C(0);
    const C delta = inside ? static_cast<const C*>(p.delta)[row] : C(0);
#pragma unroll
    for (int c = 0; c < R; ++c) {
      const C e = s[r][c] == -C(INFINITY) ? C(0) : exp_of(s[r][c] - lse);
      const C keep = kept<C>(p, row, first_k + tx + 16 * c);
      s[r][c] = e * keep;
      dp[r][c] = e == C(0) ? C(0) : e * (dp[r][c] * keep - delta);
    }
  }
}

template <class C, int R>
__device__ __forceinline__ void put_tile(C* tile, const C (&x)[R][R]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int c = 0; c < R; ++c) tile[(ty * R + r) * (16 * R + 1) + tx + 16 * c] = x[r][c];
}

// dq of a tile of queries: over all keys that they see.
template <class T, int Dim>
__global__ void __launch_bounds__(kThreads) dq_kernel(const __grid_constant__ Problem p) {
  using C = compute_t<T>;
  constexpr int R = Tiles<C, Dim>::R, B = 16 * R, Cols = Dim / 16;
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const gs = qs + B * (Dim + 1);
  C* const ks = gs + B * (Dim + 1);
  C* const vs = ks + B * (Dim + 1);
  C* const ds = vs + B * (Dim + 1);

  const std::int64_t tiles = gpu::ceil_div(p.queries, B);
  const std::int64_t first_q = (tiles - 1 - blockIdx.x % tiles) * B;
  const std::int64_t head = blockIdx.x / tiles, b = head / p.heads, h = head % p.heads;
  const std::int64_t kv_head = h / (p.heads / p.kv_heads);
  load_tile<T, B, Dim>(qs, p.q, b, h, first_q, p.queries, p.dim);
  load_tile<T, B, Dim>(gs, p.grad, b, h, first_q, p.queries, p.value_dim);
  C acc[R][Cols];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int c = 0; c < Cols; ++c) acc[r][c] = 0;
  const std::int64_t last_q = min(first_q + B, p.queries) - 1;
  const std::int64_t end = causal_end(last_q, p.keys, p.causal, p.causal_offset);
  for (std::int64_t first_k = 0; first_k < end; first_k += B) {
    __syncthreads();
    load_tile<T, B, Dim>(ks, p.k, b, kv_head, first_k, p.keys, p.dim);
    load_tile<T, B, Dim>(vs, p.v, b, kv_head, first_k, p.keys, p.value_dim);
    __syncthreads();
    C s[R][R], dp[R][R];
    dot_tiles<C, R, R, Dim>(qs, ks, p.dim, s);
    finish_scores(p, b, h, first_q, first_k, s);
    dot_tiles<C, R, R, Dim>(gs, vs, p.value_dim, dp);
    score_gradients(p, head, first_q, first_k, s, dp);
    put_tile(ds, dp);
    __syncthreads();
    mix_tiles<C, R, Cols, B, Dim>(ds, B + 1, 1, ks, acc);
  }
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t i = first_q + ty * R + r;
    if (i >= p.queries) continue;
    T* to = static_cast<T*>(p.dq) + (head * p.queries + i) * p.dim;
#pragma unroll
    for (int c = 0; c < Cols; ++c)
      if (tx + 16 * c < p.dim) to[tx + 16 * c] = gpu::from_compute<T>(acc[r][c] * static_cast<C>(p.scale));
  }
}

// dk and dv of a tile of keys: over the queries, head by head of the group, that see them.
template <class T, int Dim>
__global__ void __launch_bounds__(kThreads) dkv_kernel(const __grid_constant__ Problem p) {
  using C = compute_t<T>;
  constexpr int R = Tiles<C, Dim>::R, B = 16 * R, Cols = Dim / 16;
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const gs = qs + B * (Dim + 1);
  C* const ks = gs + B * (Dim + 1);
  C* const vs = ks + B * (Dim + 1);
  C* const ps = vs + B * (Dim + 1);
  C* const ds = ps + B * (B + 1);

  const std::int64_t tiles = gpu::ceil_div(p.keys, B);
  const std::int64_t first_k = blockIdx.x % tiles * B;  // the first keys are seen by the most queries
  const std::int64_t kv = blockIdx.x / tiles, b = kv / p.kv_heads, kv_head = kv % p.kv_heads;
  const std::int64_t group = p.heads / p.kv_heads;
  load_tile<T, B, Dim>(ks, p.k, b, kv_head, first_k, p.keys, p.dim);
  load_tile<T, B, Dim>(vs, p.v, b, kv_head, first_k, p.keys, p.value_dim);
  C dk[R][Cols], dv[R][Cols];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int c = 0; c < Cols; ++c) dk[r][c] = dv[r][c] = 0;
  // The first query that sees the tile: j <= i + offset.
  std::int64_t start = p.causal ? first_k - p.causal_offset : 0;
  start = start < 0 ? 0 : start / B * B;
  for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    const std::int64_t head = b * p.heads + h;
    for (std::int64_t first_q = start; first_q < p.queries; first_q += B) {
      __syncthreads();
      load_tile<T, B, Dim>(qs, p.q, b, h, first_q, p.queries, p.dim);
      load_tile<T, B, Dim>(gs, p.grad, b, h, first_q, p.queries, p.value_dim);
      __syncthreads();
      C s[R][R], dp[R][R];
      dot_tiles<C, R, R, Dim>(qs, ks, p.dim, s);
      finish_scores(p, b, h, first_q, first_k, s);
      dot_tiles<C, R, R, Dim>(gs, vs, p.value_dim, dp);
      score_gradients(p, head, first_q, first_k, s, dp);
      put_tile(ps, s);
      put_tile(ds, dp);
      __syncthreads();
      mix_tiles<C, R, Cols, B, Dim>(ps, 1, B + 1, gs, dv);
      mix_tiles<C, R, Cols, B, Dim>(ds, 1, B + 1, qs, dk);
    }
  }
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t j = first_k + ty * R + r;
    if (j >= p.keys) continue;
    T* to_k = static_cast<T*>(p.dk) + (kv * p.keys + j) * p.dim;
    T* to_v = static_cast<T*>(p.dv) + (kv * p.keys + j) * p.value_dim;
#pragma unroll
    for (int c = 0; c < Cols; ++c) {
      const int d = tx + 16 * c;
      if (p.dk != nullptr && d < p.dim) to_k[d] = gpu::from_compute<T>(dk[r][c] * static_cast<C>(p.scale));
      if (p.dv != nullptr && d < p.value_dim) to_v[d] = gpu::from_compute<T>(dv[r][c]);
    }
  }
}

// The sizes of the mask, each that of the scores or 1, and where its gradient goes: contiguous, compute type.
struct MaskGradient {
  std::int64_t batch, heads, queries, keys;
  void* data;
};

// A tile of the mask's gradient: over everything that it was broadcast along.
template <class T, int Dim>
__global__ void __launch_bounds__(kThreads) dmask_kernel(const __grid_constant__ Problem p, MaskGradient m) {
  using C = compute_t<T>;
  constexpr int R = Tiles<C, Dim>::R, B = 16 * R;
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const gs = qs + B * (Dim + 1);
  C* const ks = gs + B * (Dim + 1);
  C* const vs = ks + B * (Dim + 1);
  C* const ds = vs + B * (Dim + 1);

  const bool one_b = m.batch == 1, one_h = m.heads == 1, one_i = m.queries == 1, one_j = m.keys == 1;
  std::int64_t at = blockIdx.x;
  const std::int64_t tiles_k = gpu::ceil_div(m.keys, B), tiles_q = gpu::ceil_div(m.queries, B);
  const std::int64_t tile_k = at % tiles_k;
  at /= tiles_k;
  const std::int64_t tile_q = at % tiles_q;
  at /= tiles_q;
  const std::int64_t mh = at % m.heads, mb = at / m.heads;
  const std::int64_t k_begin = tile_k * B, k_end = one_j ? p.keys : min(k_begin + B, p.keys);
  const std::int64_t q_begin = tile_q * B, q_end = one_i ? p.queries : min(q_begin + B, p.queries);

  C acc[R][R];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int c = 0; c < R; ++c) acc[r][c] = 0;
  for (std::int64_t b = one_b ? 0 : mb; b < (one_b ? p.batch : mb + 1); ++b)
    for (std::int64_t h = one_h ? 0 : mh; h < (one_h ? p.heads : mh + 1); ++h) {
      const std::int64_t head = b * p.heads + h, kv_head = h / (p.heads / p.kv_heads);
      for (std::int64_t first_q = q_begin; first_q < q_end; first_q += B)
        for (std::int64_t first_k = k_begin; first_k < k_end; first_k += B) {
          __syncthreads();
          load_tile<T, B, Dim>(qs, p.q, b, h, first_q, p.queries, p.dim);
          load_tile<T, B, Dim>(gs, p.grad, b, h, first_q, p.queries, p.value_dim);
          load_tile<T, B, Dim>(ks, p.k, b, kv_head, first_k, p.keys, p.dim);
          load_tile<T, B, Dim>(vs, p.v, b, kv_head, first_k, p.keys, p.value_dim);
          __syncthreads();
          C s[R][R], dp[R][R];
          dot_tiles<C, R, R, Dim>(qs, ks, p.dim, s);
          finish_scores(p, b, h, first_q, first_k, s);
          dot_tiles<C, R, R, Dim>(gs, vs, p.value_dim, dp);
          score_gradients(p, head, first_q, first_k, s, dp);
#pragma unroll
          for (int r = 0; r < R; ++r)
#pragma unroll
            for (int c = 0; c < R; ++c) acc[r][c] += dp[r][c];
        }
    }
  put_tile(ds, acc);
  __syncthreads();
  C* const out = static_cast<C*>(m.data) + (mb * m.heads + mh) * m.queries * m.keys;
  const int rows = one_i ? 1 : B, cols = one_j ? 1 : B;
  for (int e = threadIdx.x; e < rows * cols; e += kThreads) {
    const int r = e / cols, c = e % cols;
    const std::int64_t i = one_i ? 0 : q_begin + r, j = one_j ? 0 : k_begin + c;
    if (i >= m.queries || j >= m.keys) continue;
    C sum = 0;
    for (int x = r; x < (one_i ? B : r + 1); ++x)
      for (int y = c; y < (one_j ? B : c + 1); ++y) sum += ds[x * (B + 1) + y];
    out[i * m.keys + j] = sum;
  }
}

Place place(const Tensor& t) {
  const Strides& s = t.strides();
  return {t.raw_data(), s[0], s[1], s[2], s[3]};
}

Problem problem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const Tensor& out,
                const Tensor& lse, const Attrs& attrs) {
  const Extents e(q.shape(), k.shape(), v.shape());
  CT_CHECK(e.dim <= 256 && e.value_dim <= 256, ShapeError, kName, "q is ", describe(q), ", v is ",
           describe(v), "; on CUDA, head dimensions go up to 256");
  const DropRule rule(attrs);
  Problem p{};
  p.batch = e.batch, p.heads = e.heads, p.kv_heads = e.kv_heads, p.queries = e.queries, p.keys = e.keys;
  p.dim = static_cast<int>(e.dim), p.value_dim = static_cast<int>(e.value_dim);
  p.q = place(q), p.k = place(k), p.v = place(v), p.out = place(out);
  p.lse = lse.raw_data();
  p.scale = attrs.scale, p.causal = attrs.causal, p.causal_offset = attrs.causal_offset;
  p.draw = rule.draw, p.drops = rule.threshold > 0, p.keep = rule.keep;
  p.drop_last = static_cast<std::uint32_t>(rule.threshold > 0 ? rule.threshold - 1 : 0);
  p.mask_kind = gpu::mask_kind(mask);
  if (mask.defined()) {
    const Strides s = broadcast_strides(mask.shape(), mask.strides(), {e.batch, e.heads, e.queries, e.keys});
    p.mask = {mask.raw_data(), s[0], s[1], s[2], s[3]};
  }
  return p;
}

// Calls body(TypeTag of the element, integral constant of the head dimension rounded up).
template <class Body>
void visit(DType dtype, int dim, const Body& body) {
  visit_floating(kName, dtype, [&](auto tag) {
    if (dim <= 32) {
      body(tag, std::integral_constant<int, 32>{});
    } else if (dim <= 64) {
      body(tag, std::integral_constant<int, 64>{});
    } else if (dim <= 128) {
      body(tag, std::integral_constant<int, 128>{});
    } else {
      body(tag, std::integral_constant<int, 256>{});
    }
  });
}

}  // namespace

void forward_cuda(const Forward& f) {
  NoGrad guard;
  if (mma_forward(f)) return;
  const Problem p = problem(f.in(0), f.in(1), f.in(2), f.in(3), f.out(0), f.out(1), f.attrs<Attrs>());
  visit(f.in(0).dtype(), std::max(p.dim, p.value_dim), [&](auto tag, auto dim) {
    using T = typename decltype(tag)::type;
    using Sizes = Tiles<compute_t<T>, decltype(dim)::value>;
    const std::int64_t blocks = gpu::ceil_div(p.queries, 16 * Sizes::RQ) * p.batch * p.heads;
    gpu::launch(kName, forward_kernel<T, decltype(dim)::value>, dim3(gpu::blocks_for(kName, blocks, 1)),
                dim3(kThreads), Sizes::kForward, p);
  });
}

void backward_cuda(const Backward& b) {
  NoGrad guard;
  if (mma_backward(b)) return;
  const Tensor& mask = b.saved_inputs[3];
  Problem p = problem(b.in(0), b.in(1), b.in(2), mask, b.out(0), b.out(1), b.attrs<Attrs>());
  p.grad = place(b.grad());
  const Tensor delta = Tensor::allocate(b.out(1).shape(), b.out(1).dtype(), b.out(1).device());
  p.delta = delta.raw_data();
  if (b.needs(0)) p.dq = b.grad_in(0).raw_data();
  if (b.needs(1)) p.dk = b.grad_in(1).raw_data();
  if (b.needs(2)) p.dv = b.grad_in(2).raw_data();
  visit(b.in(0).dtype(), std::max(p.dim, p.value_dim), [&](auto tag, auto dim) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    constexpr int d = decltype(dim)::value;
    using Sizes = Tiles<C, d>;
    constexpr int tile = 16 * Sizes::R;
    const std::int64_t rows = p.batch * p.heads * p.queries;
    gpu::launch(kName, delta_kernel<T>, dim3(gpu::blocks_for(kName, rows, kThreads / 32)), dim3(kThreads), 0,
                p);
    if (b.needs(0)) {
      const std::int64_t blocks = gpu::ceil_div(p.queries, tile) * p.batch * p.heads;
      gpu::launch(kName, dq_kernel<T, d>, dim3(gpu::blocks_for(kName, blocks, 1)), dim3(kThreads),
                  Sizes::kBackward, p);
    }
    if (b.needs(1) || b.needs(2)) {
      const std::int64_t blocks = gpu::ceil_div(p.keys, tile) * p.batch * p.kv_heads;
      gpu::launch(kName, dkv_kernel<T, d>, dim3(gpu::blocks_for(kName, blocks, 1)), dim3(kThreads),
                  Sizes::kBackward, p);
    }
    if (b.needs(3)) {
      Shape full = mask.shape();
      while (full.size() < 4) full.insert(0, 1);
      const Tensor sums = Tensor::allocate(mask.shape(), dtype_of<C>, mask.device());
      const MaskGradient m{full[0], full[1], full[2], full[3], sums.raw_data()};
      const std::int64_t blocks =
          gpu::ceil_div(m.queries, tile) * gpu::ceil_div(m.keys, tile) * m.batch * m.heads;
      gpu::launch(kName, dmask_kernel<T, d>, dim3(gpu::blocks_for(kName, blocks, 1)), dim3(kThreads),
                  Sizes::kBackward, p, m);
      if (mask.dtype() == dtype_of<C>) {
        b.set_grad_in(3, sums);
      } else {
        copy_kernel(b.grad_in(3), sums);
      }
    }
  });
}

}  // namespace ct::attention
