#include "bench/ladders/attention_backward.h"
#include "bench/ladders/rows.cuh"

// Five products of T x T x 64 (attention_backward.h has the formulas), in f32 on the ordinary units. dq is a sum along the rows of
// ds, dk and dv are sums down columns of ds and p: who stores, who adds in turn, who computes again is what the rungs differ in.

namespace ct::ladder::attention_backward {
namespace {

constexpr int D = kD;

struct Operands {
  const float *q, *k, *v, *g;
  float *dq, *dk, *dv;
  int T;
};
Operands operands(const Call& c) {
  return {c.input<float>(0),  c.input<float>(1),  c.input<float>(2),  c.input<float>(3),
          c.output<float>(0), c.output<float>(1), c.output<float>(2), static_cast<int>(c.size(1))};
}

__device__ float dot(const float* a, const float* b) {
  float sum = 0;
  for (int d = 0; d < D; d += 4) {
    const float4 u = *reinterpret_cast<const float4*>(a + d), w = *reinterpret_cast<const float4*>(b + d);
    sum += u.x * w.x + u.y * w.y + u.z * w.z + u.w * w.w;
  }
  return sum;
}
__device__ float block_largest(float v) {
  __shared__ float warps[8];
  for (int s = 16; s > 0; s /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, s));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  for (int i = 0; i < 8; ++i) v = fmaxf(v, warps[i]);
  return v;
}

// A row of p and of ds, by a block, for the query blockIdx.x of the head blockIdx.y: {lse, sum_j p_ij dp_ij}.
__device__ float2 row_of(const Operands& a, float* p, float* ds) {
  const long head = static_cast<long>(blockIdx.y) * a.T * D;
  const float *q = a.q + head + blockIdx.x * D, *g = a.g + head + blockIdx.x * D;
  float top = -INFINITY, sum = 0, mean = 0;
  for (int j = threadIdx.x; j < a.T; j += 256) {
    p[j] = dot(q, a.k + head + j * D) / 8;
    ds[j] = dot(g, a.v + head + j * D);
    top = fmaxf(top, p[j]);
  }
  top = block_largest(top);
  for (int j = threadIdx.x; j < a.T; j += 256) {
    p[j] = expf(p[j] - top);
    sum += p[j];
    mean += p[j] * ds[j];
  }
  sum = block_sum(sum);
  mean = block_sum(mean) / sum;
  for (int j = threadIdx.x; j < a.T; j += 256) {
    p[j] /= sum;
    ds[j] = p[j] * (ds[j] - mean) / 8;
  }
  return {top + logf(sum), mean};
}

// Stored: p and ds as matrices, then dq, dk and dv as products, a thread for each number.
__global__ void __launch_bounds__(256) matrices(Operands a, float* p, float* ds) {
  const long row = (static_cast<long>(blockIdx.y) * a.T + blockIdx.x) * a.T;
  row_of(a, p + row, ds + row);
}
__global__ void __launch_bounds__(256) products(Operands a, const float* p, const float* ds) {
  const int i = static_cast<int>(blockIdx.x) * 4 + threadIdx.x / D, d = threadIdx.x % D;
  if (i >= a.T) return;
  const long head = static_cast<long>(blockIdx.y) * a.T * D,
             square = static_cast<long>(blockIdx.y) * a.T * a.T;
  float dq = 0, dk = 0, dv = 0;
  for (int j = 0; j < a.T; ++j) {
    dq += ds[square + static_cast<long>(i) * a.T + j] * a.k[head + j * D + d];
    dk += ds[square + static_cast<long>(j) * a.T + i] * a.q[head + j * D + d];
    dv += p[square + static_cast<long>(j) * a.T + i] * a.g[head + j * D + d];
  }
  a.dq[head + i * D + d] = dq, a.dk[head + i * D + d] = dk, a.dv[head + i * D + d] = dv;
}
void run_stored(const Call& c) {
  const std::int64_t numbers = c.size(0) * c.size(1) * c.size(1);
  const Tensor between = scratch(2 * numbers);
  float *const p = between.data<float>(), *const ds = p + numbers;
  const unsigned T = static_cast<unsigned>(c.size(1)), heads = static_cast<unsigned>(c.size(0));
  launch256(matrices, dim3(T, heads), operands(c), p, ds);
  launch256(products, dim3((T + 3) / 4, heads), operands(c), p, ds);
}

// Atomics: a query's row stays in shared memory; its block adds to dk and dv where they lie. No matrix, but 2 x 64 T additions to
// memory for each query, in any order: the bits are others in each run.
__global__ void __launch_bounds__(256) atomics(Operands a) {
  extern __shared__ float rows[];
  float *const p = rows, *const ds = rows + a.T;
  row_of(a, p, ds);
  __syncthreads();
  const long head = static_cast<long>(blockIdx.y) * a.T * D;
  const int d = threadIdx.x % D, part = threadIdx.x / D;
  const float q = a.q[head + blockIdx.x * D + d], g = a.g[head + blockIdx.x * D + d];
  float dq = 0;
  for (int j = part; j < a.T; j += 4) {
    dq += ds[j] * a.k[head + j * D + d];
    atomicAdd(&a.dk[head + j * D + d], ds[j] * q);
    atomicAdd(&a.dv[head + j * D + d], p[j] * g);
  }
  __shared__ float parts[4][D];
  parts[part][d] = dq;
  __syncthreads();
  if (part == 0) a.dq[head + blockIdx.x * D + d] = (parts[0][d] + parts[1][d]) + (parts[2][d] + parts[3][d]);
}
void run_atomics(const Call& c) {
  Tensor(c.out[1]).fill_(0), Tensor(c.out[2]).fill_(0);
  const dim3 blocks(static_cast<unsigned>(c.size(1)), static_cast<unsigned>(c.size(0)));
  gpu::launch("ladder", atomics, blocks, 256, static_cast<std::size_t>(2 * c.size(1)) * sizeof(float),
              operands(c));
}

// Tiles: two numbers a row, lse and sum_j p dp, are all that is kept: p = e^(s - lse) comes back from a product. Then dk and dv by
// blocks that own 32 keys and walk over the queries, and dq by blocks that own 32 queries and walk over the keys: each sum
// has one owner and one order, for two products more.
__global__ void __launch_bounds__(256) statistics(Operands a, float2* of_row) {
  extern __shared__ float rows[];
  const float2 found = row_of(a, rows, rows + a.T);
  if (threadIdx.x == 0) of_row[blockIdx.y * a.T + blockIdx.x] = found;
}
// Four numbers of a sum at once: p times 16 bytes.
__device__ void add_to(float4& sum, float p, const float* v) {
  const float4 by = *reinterpret_cast<const float4*>(v);
  sum.x += p * by.x, sum.y += p * by.y, sum.z += p * by.z, sum.w += p * by.w;
}
// Threads 8 row to 8 row + 7 have a row of the tile: four of its 32 products with the other tile, then 8 of its 64 channels.
template <bool owns_keys>
__global__ void __launch_bounds__(256) tiles(Operands a, const float2* of_row) {
  constexpr int kPitch = D + 4;  // eight neighbouring rows lie in different banks, 16 bytes of each
  __shared__ __align__(16) float own[2][32][kPitch], other[2][32][kPitch];
  __shared__ float p[32][33];
  const int row = threadIdx.x / 8, lane = threadIdx.x % 8, first = static_cast<int>(blockIdx.x) * 32;
  const long head = static_cast<long>(blockIdx.y) * a.T * D;
  const auto fetch = [&](float(*to)[32][kPitch], const float* low, const float* high, int begin) {
    for (int i = threadIdx.x; i < 32 * D; i += 256) {
      const int at = begin + i / D;
      to[0][i / D][i % D] = at < a.T ? low[head + at * D + i % D] : 0;
      to[1][i / D][i % D] = at < a.T ? high[head + at * D + i % D] : 0;
    }
  };
  fetch(own, owns_keys ? a.k : a.q, owns_keys ? a.v : a.g, first);
  float4 sums[2][2] = {};  // dk and dv, or dq: channels 4 lane and 32 + 4 lane on
  for (int begin = 0; begin < a.T; begin += 32) {
    __syncthreads();  // the tile before has been used
    fetch(other, owns_keys ? a.q : a.k, owns_keys ? a.g : a.v, begin);
    __syncthreads();
    float ds[4];
    for (int m = 0; m < 4; ++m) {
      const int there = lane + 8 * m, i = owns_keys ? begin + there : first + row;
      const bool inside = first + row < a.T && begin + there < a.T;
      const float2 kept = inside ? of_row[blockIdx.y * a.T + i] : float2{0, 0};
      const float prob = inside ? expf(dot(own[0][row], other[0][there]) / 8 - kept.x) : 0;
      ds[m] = prob * (dot(own[1][row], other[1][there]) - kept.y) / 8;
      p[row][there] = prob;
    }
    const auto add = [&](float4(&sum)[2], int which) {
      __syncwarp();  // a row's eight threads are of one warp
      for (int j = 0; j < 32; ++j)
        for (int half = 0; half < 2; ++half)
          add_to(sum[half], p[row][j], &other[which][j][32 * half + 4 * lane]);
      __syncwarp();
    };
    if (owns_keys) add(sums[1], 1);  // dv from p and g
    for (int m = 0; m < 4; ++m) p[row][lane + 8 * m] = ds[m];
    add(sums[0], 0);  // dk from ds and q, or dq from ds and k
  }
  if (first + row >= a.T) return;
  for (int half = 0; half < 2; ++half) {
    const long at = head + (first + row) * D + 32 * half + 4 * lane;
    *reinterpret_cast<float4*>((owns_keys ? a.dk : a.dq) + at) = sums[0][half];
    if (owns_keys) *reinterpret_cast<float4*>(a.dv + at) = sums[1][half];
  }
}
void run_tiles(const Call& c) {
  const Operands a = operands(c);
  const Tensor kept = scratch(2 * c.size(0) * c.size(1));
  float2* const of_row = reinterpret_cast<float2*>(kept.data<float>());
  const unsigned T = static_cast<unsigned>(c.size(1)), heads = static_cast<unsigned>(c.size(0));
  gpu::launch("ladder", statistics, dim3(T, heads), 256, 2 * T * sizeof(float), a, of_row);
  launch256(tiles<true>, dim3((T + 31) / 32, heads), a, of_row);
  launch256(tiles<false>, dim3((T + 31) / 32, heads), a, of_row);
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cuda);
  ladder.timed = {{f32, {32, 1024}}};
  ladder.rungs = {
      {"stored", "probabilities and their gradients as matrices in memory", run_stored},
      {"atomics", "a row in shared memory; all queries add to dk and dv in any order", run_atomics},
      {"tiles", "32 keys, or queries, own their sums: one order, two products more", run_tiles}};
  ladder.runs = 5;
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::attention_backward
