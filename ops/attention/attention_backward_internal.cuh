#pragma once

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/ops/attention/attention_tiles_internal.cuh>

// The general backward kernels. The scores are computed again, tile by tile; each kernel owns what it sums
// up: a tile of queries (dq), of keys (dk and dv), or of the mask.

namespace ct::attention {
namespace {

// delta_i = g_i . y_i, one number for each query: a warp per query.
template <class T>
__global__ void __launch_bounds__(kThreads) delta_kernel(const __grid_constant__ Problem p) {
  gpu::wait_for_previous();
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

// From scores to probabilities, and from dp = g v^T to the gradient of the scores. `s` becomes what dv
// takes (the probability after dropout), `dp` the gradient of the scores.
template <class C, int R>
__device__ __forceinline__ void score_gradients(const Problem& p, std::int64_t head, std::int64_t first_q,
                                                std::int64_t first_k, C (&s)[R][R], C (&dp)[R][R]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const GeneratorState draw = p.draw.now();
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t i = first_q + ty * R + r;
    const bool inside = i < p.queries;
    const std::int64_t row = head * p.queries + i;
    const C* const statistics = static_cast<const C*>(p.statistics) + 2 * row;
    const C max = inside ? statistics[0] : C(0), log_sum = inside ? statistics[1] : C(0);
    const C delta = inside ? static_cast<const C*>(p.delta)[row] : C(0);
#pragma unroll
    for (int c = 0; c < R; ++c) {
      const C e = s[r][c] == -C(INFINITY) ? C(0) : gpu::exp_full(s[r][c] - max - log_sum);
      const C keep = kept<C>(p, draw, row, first_k + tx + 16 * c);
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
  gpu::wait_for_previous();
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
  gpu::wait_for_previous();
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
  gpu::wait_for_previous();
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

}  // namespace
}  // namespace ct::attention
