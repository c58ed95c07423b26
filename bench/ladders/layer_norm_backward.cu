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

// A thread's share of a row, four of its columns: t, t + 256, ... ; 0 behind the end. Sums are over the block.
struct Share {
  float h[4], g[4];
  float rstd, of_d, of_dh;

  __device__ Share(const Operands& a, long row) {
    float all = 0, squares = 0, d_sum = 0, dh_sum = 0;
    for (int k = 0; k < 4; ++k) {
      const int i = column(k);
      h[k] = i < a.n ? a.x[row * a.n + i] : 0;
      g[k] = i < a.n ? a.g[row * a.n + i] : 0;
      all += h[k];
    }
    const float mean = block_sum(all) / a.n;
    for (int k = 0; k < 4; ++k) {
      h[k] = column(k) < a.n ? h[k] - mean : 0;
      squares += h[k] * h[k];
    }
    rstd = rsqrtf(block_sum(squares) / a.n + kEps);
    for (int k = 0; k < 4; ++k) {
      const float d = column(k) < a.n ? g[k] * a.w[column(k)] : 0;
      h[k] *= rstd;
      d_sum += d, dh_sum += d * h[k];
    }
    of_d = block_sum(d_sum) / a.n, of_dh = block_sum(dh_sum) / a.n;
  }
  static __device__ int column(int k) { return static_cast<int>(threadIdx.x) + 256 * k; }
  __device__ void write_dx(const Operands& a, long row) const {
    for (int k = 0; k < 4; ++k)
      if (const int i = column(k); i < a.n)
        a.dx[row * a.n + i] = rstd * (g[k] * a.w[i] - of_d - h[k] * of_dh);
  }
};

// Atomics: a block has a row, and adds its share of dw and db where they lie. x and g are read once, but each of 2 n places is
// added to by every row, in the order of arrival: the bits are others in each run.
__global__ void __launch_bounds__(256) atomics(Operands a) {
  const int t = threadIdx.x;
  const Share s(a, blockIdx.x);
  s.write_dx(a, blockIdx.x);
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
  const Share s(a, blockIdx.x);
  s.write_dx(a, blockIdx.x);
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
  const long begin = blockIdx.y * each, end = ::min(a.rows, begin + each);
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
// each. x and g are read once. A block's sums go to memory at its end, as parts. (A row for each warp, without barriers, was
// measured to be no faster: 64 sums in registers leave room for one block on a multiprocessor.)
constexpr int kBlocks = 512;
__global__ void __launch_bounds__(256) once(Operands a, float* dw, float* db) {
  const int t = threadIdx.x;
  float of_w[4] = {}, of_b[4] = {};
  for (long row = blockIdx.x; row < a.rows; row += kBlocks) {
    const Share s(a, row);
    s.write_dx(a, row);
    for (int k = 0; k < 4; ++k) of_w[k] += s.g[k] * s.h[k], of_b[k] += s.g[k];
  }
  for (int k = 0; k < 4; ++k)
    if (const int i = t + 256 * k; i < a.n)
      dw[static_cast<long>(blockIdx.x) * a.n + i] = of_w[k],
                                               db[static_cast<long>(blockIdx.x) * a.n + i] = of_b[k];
}
void run_once(const Call& c) {
  const Tensor parts = scratch(2L * kBlocks * c.size(1));
  launch256(once, dim3(kBlocks), operands(c), parts.data<float>(), parts.data<float>() + kBlocks * c.size(1));
  run_join(c, parts, kBlocks);
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cuda);
  ladder.timed = {{f32, {65'536, 1024}}};
  ladder.rungs = {
      {"atomics", "a block has a row; all add to dw and db in any order", run_atomics},
      {"columns", "dw and db down columns, in one order; x and g are read twice, by few blocks", run_columns},
      {"two-stages", "64 parts of the rows, joined in order: enough blocks", run_stages},
      {"once", "blocks stay, dw and db in registers: one read", run_once}};
  ladder.runs = 5;
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::layer_norm_backward
