#include "bench/ladders/layer_norm_backward.h"
#include "bench/ladders/rows.cuh"

// dx goes along rows, dw and db go down columns (layer_norm_backward_cpu.cpp has the formulas). Rows have up to 1024 numbers.
// Every row adds to all columns: who adds, in which order, and how often x and g are read, is what the rungs differ in.

namespace ct::ladder::layer_norm_backward {
namespace {

struct Operands {
  const float *x, *w, *g;
  float *dx, *dw, *db;
  long rows;
  int n;
};
Operands operands(const Call& c) {
  return {c.input<float>(0),  c.input<float>(1),  c.input<float>(3), c.output<float>(0),
          c.output<float>(1), c.output<float>(2), c.size(0),         static_cast<int>(c.size(1))};
}

// Numbers of a thread's share of a row: column first + k step is its k-th, 0 behind the end.
template <int kMost>
struct Share {
  float h[kMost], g[kMost];
  float rstd, of_d, of_dh;

  // `sum` adds up over all threads that share the row. Behind the end d and h are 0: w is asked for where there is one.
  template <class Sum>
  __device__ Share(const Operands& a, long row, int first, int step, Sum sum) {
    float all = 0, squares = 0, d_sum = 0, dh_sum = 0;
#pragma unroll
    for (int k = 0; k < kMost; ++k) {
      const int i = first + k * step;
      h[k] = i < a.n ? a.x[row * a.n + i] : 0;
      g[k] = i < a.n ? a.g[row * a.n + i] : 0;
      all += h[k];
    }
    const float mean = sum(all) / a.n;
#pragma unroll
    for (int k = 0; k < kMost; ++k) {
      h[k] = first + k * step < a.n ? h[k] - mean : 0;
      squares += h[k] * h[k];
    }
    rstd = rsqrtf(sum(squares) / a.n + kEps);
#pragma unroll
    for (int k = 0; k < kMost; ++k) {
      const float d = first + k * step < a.n ? g[k] * a.w[first + k * step] : 0;
      h[k] *= rstd;
      d_sum += d, dh_sum += d * h[k];
    }
    of_d = sum(d_sum) / a.n, of_dh = sum(dh_sum) / a.n;
  }
  __device__ void write_dx(const Operands& a, long row, int first, int step) const {
#pragma unroll
    for (int k = 0; k < kMost; ++k)
      if (const int i = first + k * step; i < a.n)
        a.dx[row * a.n + i] = rstd * (g[k] * a.w[i] - of_d - h[k] * of_dh);
  }
};
struct OverBlock {
  __device__ float operator()(float v) const { return block_sum(v); }
};
struct OverWarp {
  __device__ float operator()(float v) const { return warp_sum(v); }
};

// Atomics: a block has a row, and adds its share of dw and db where they lie. x and g are read once, but each of 2 n places is
// added to by every row, in the order of arrival: the bits are others in each run.
__global__ void __launch_bounds__(256) atomics(Operands a) {
  const int t = threadIdx.x;
  const Share<4> s(a, blockIdx.x, t, 256, OverBlock());
  s.write_dx(a, blockIdx.x, t, 256);
  for (int k = 0; k < 4; ++k)
    if (t + 256 * k < a.n) {
      atomicAdd(&a.dw[t + 256 * k], s.g[k] * s.h[k]);
      atomicAdd(&a.db[t + 256 * k], s.g[k]);
    }
}
void run_atomics(const Call& c) {
  Tensor(c.out[1]).fill_(0), Tensor(c.out[2]).fill_(0);
  launch256(atomics, dim3(static_cast<unsigned>(c.size(0))), operands(c));
}

// Columns: dx first; then a block goes down 32 columns, its eight warps a row each, and adds in one order. The bits are fixed.
// x and g are read twice, and 32 blocks are all there are for 1024 columns: most of the GPU has nothing to do.
__global__ void __launch_bounds__(256) rows_alone(Operands a, float2* statistics) {
  const Share<4> s(a, blockIdx.x, static_cast<int>(threadIdx.x), 256, OverBlock());
  s.write_dx(a, blockIdx.x, static_cast<int>(threadIdx.x), 256);
  float sum = 0;
  for (int i = threadIdx.x; i < a.n; i += 256) sum += a.x[static_cast<long>(blockIdx.x) * a.n + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) statistics[blockIdx.x] = {sum / a.n, s.rstd};
}
// Rows from blockIdx.y * each on; results at dw + blockIdx.y * n.
__global__ void __launch_bounds__(256)
    columns(Operands a, const float2* statistics, float* dw, float* db, long each) {
  __shared__ float parts[2][8][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = static_cast<int>(blockIdx.x) * 32 + lane;
  const long begin = blockIdx.y * each, end = min(a.rows, begin + each);
  float of_w = 0, of_b = 0;
  for (long row = begin + warp; row < end && i < a.n; row += 8) {
    const float g = a.g[row * a.n + i];
    const float2 s = statistics[row];
    of_w += g * (a.x[row * a.n + i] - s.x) * s.y;
    of_b += g;
  }
  parts[0][warp][lane] = of_w, parts[1][warp][lane] = of_b;
  __syncthreads();
  if (warp > 1 || i >= a.n) return;
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += parts[warp][k][lane];
  (warp == 0 ? dw : db)[static_cast<long>(blockIdx.y) * a.n + i] = sum;
}
// dw and db from `count` parts of each, in their order.
__global__ void __launch_bounds__(256) join(const float* dw, const float* db, Operands a, int count) {
  const int i = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (i >= a.n) return;
  float of_w = 0, of_b = 0;
  for (int k = 0; k < count; ++k)
    of_w += dw[static_cast<long>(k) * a.n + i], of_b += db[static_cast<long>(k) * a.n + i];
  a.dw[i] = of_w, a.db[i] = of_b;
}
void run_join(const Call& c, const Tensor& parts, int count) {
  const float* const dw = parts.data<float>();
  launch256(join, gpu::blocks_for("ladder", c.size(1), 256), dw, dw + count * c.size(1), operands(c), count);
}

void in_stages(const Call& c, int count) {
  const Operands a = operands(c);
  const Tensor pairs = scratch(2 * a.rows), parts = scratch(2L * count * a.n);
  float2* const statistics = reinterpret_cast<float2*>(pairs.data<float>());
  launch256(rows_alone, dim3(static_cast<unsigned>(a.rows)), a, statistics);
  float* const dw = count == 1 ? a.dw : parts.data<float>();
  float* const db = count == 1 ? a.db : dw + static_cast<long>(count) * a.n;
  launch256(columns, dim3(static_cast<unsigned>((a.n + 31) / 32), static_cast<unsigned>(count)), a,
            statistics, dw, db, gpu::ceil_div(a.rows, count));
  if (count > 1) run_join(c, parts, count);
}
void run_columns(const Call& c) { in_stages(c, 1); }
// Two stages: the rows are cut into 64 parts, whose sums go to memory apart and are joined in order by a last, small kernel:
// 64 times as many blocks, and still one order.
void run_stages(const Call& c) { in_stages(c, 64); }

// Once: a block stays and takes a row after the other; its thread adds what it has of dw and db to registers, four columns
// each. x and g are read once. A block's sums go to memory at its end, as parts.
constexpr int kBlocks = 512;
__global__ void __launch_bounds__(256) once(Operands a, float* dw, float* db) {
  const int t = threadIdx.x;
  float of_w[4] = {}, of_b[4] = {};
  for (long row = blockIdx.x; row < a.rows; row += kBlocks) {
    const Share<4> s(a, row, t, 256, OverBlock());
    s.write_dx(a, row, t, 256);
    for (int k = 0; k < 4; ++k) of_w[k] += s.g[k] * s.h[k], of_b[k] += s.g[k];
  }
  for (int k = 0; k < 4; ++k)
    if (const int i = t + 256 * k; i < a.n)
      dw[static_cast<long>(blockIdx.x) * a.n + i] = of_w[k],
                                               db[static_cast<long>(blockIdx.x) * a.n + i] = of_b[k];
}
template <class Kernel>
void in_parts(const Call& c, Kernel kernel) {
  const Tensor parts = scratch(2L * kBlocks * c.size(1));
  launch256(kernel, dim3(kBlocks), operands(c), parts.data<float>(),
            parts.data<float>() + kBlocks * c.size(1));
  run_join(c, parts, kBlocks);
}

// Warps: a row for each warp, whose sums are shuffles: of eight barriers a row none is left. The eight warps of a block join
// their parts in shared memory, in their order, at the end.
__global__ void __launch_bounds__(256) warps(Operands a, float* dw, float* db) {
  __shared__ float parts[2][1024];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float of_w[32] = {}, of_b[32] = {};
  for (long row = blockIdx.x * 8L + warp; row < a.rows; row += kBlocks * 8) {
    const Share<32> s(a, row, lane, 32, OverWarp());
    s.write_dx(a, row, lane, 32);
#pragma unroll
    for (int k = 0; k < 32; ++k) of_w[k] += s.g[k] * s.h[k], of_b[k] += s.g[k];
  }
  for (int turn = 0; turn < 8; ++turn) {
    if (turn == warp)
#pragma unroll
      for (int k = 0; k < 32; ++k) {
        parts[0][lane + 32 * k] = (turn == 0 ? 0 : parts[0][lane + 32 * k]) + of_w[k];
        parts[1][lane + 32 * k] = (turn == 0 ? 0 : parts[1][lane + 32 * k]) + of_b[k];
      }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < a.n; i += 256)
    dw[static_cast<long>(blockIdx.x) * a.n + i] = parts[0][i],
                                             db[static_cast<long>(blockIdx.x) * a.n + i] = parts[1][i];
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cuda);
  ladder.timed = {{f32, {65'536, 1024}}};
  ladder.rungs = {
      {"atomics", "a block has a row; all add to dw and db in any order", run_atomics},
      {"columns", "dw and db down columns, in one order; x and g are read twice, by few blocks", run_columns},
      {"two-stages", "64 parts of the rows, joined in order: enough blocks", run_stages},
      {"once", "blocks stay, dw and db in registers: one read", [](const Call& c) { in_parts(c, once); }},
      {"warps", "a row for each warp: no barrier", [](const Call& c) { in_parts(c, warps); }}};
  ladder.runs = 5;
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::layer_norm_backward
