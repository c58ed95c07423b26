#include "bench/ladders/cross_entropy.h"
#include "bench/ladders/rows.cuh"
#include "bench/ladders/softmax.cuh"

// Loss of a row: log sum_j e^(x_j) - x_label; gradient: softmax(x) - [label], over the number of rows. Rows have up to 1024
// numbers. How often a row is read, and where it stays meanwhile, is what the rungs differ in.

namespace ct::ladder::cross_entropy {
namespace {

// Over a block of 256 threads, in all of them.
__device__ float block_largest(float v) {
  __shared__ float warps[8];
  v = softmax::warp_all(v, softmax::larger);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  for (int i = 0; i < 8; ++i) v = fmaxf(v, warps[i]);
  return v;
}

// The mean of what the rows have lost, by one block, in one order.
__global__ void __launch_bounds__(256) mean_of(const float* losses, float* loss, long rows) {
  float sum = 0;
  for (long i = threadIdx.x; i < rows; i += 256) sum += losses[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss = sum / static_cast<float>(rows);
}
// dx from the rows' lse, a thread for each number.
__global__ void __launch_bounds__(256)
    gradient_of(const float* x, const long* labels, const float* lse, float* dx, long rows, int n) {
  const long i = static_cast<long>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= rows * n) return;
  const long row = i / n;
  dx[i] = (expf(x[i] - lse[row]) - (i % n == labels[row] ? 1.f : 0.f)) / static_cast<float>(rows);
}

// Apart: loss and gradient as two ops. The loss reads a row twice, the second time out of a cache; the gradient
// fetches it again, and takes exponentials of its own.
__global__ void __launch_bounds__(256)
    lse_of(const float* x, const long* labels, float* lse, float* losses, int n) {
  x += static_cast<long>(blockIdx.x) * n;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) top = fmaxf(top, x[i]);
  top = block_largest(top);
  for (int i = threadIdx.x; i < n; i += 256) sum += expf(x[i] - top);
  sum = block_sum(sum);
  if (threadIdx.x > 0) return;
  lse[blockIdx.x] = top + logf(sum);
  losses[blockIdx.x] = lse[blockIdx.x] - x[labels[blockIdx.x]];
}
// Fused: the block that knows the sum writes the gradient at once. The second and the third reading find the row in the
// first-level cache. (An online softmax, one walk for largest number and sum, was measured to be slower: it takes two
// exponentials for each number, to spare a reading that costs nothing.)
__global__ void __launch_bounds__(256)
    fused(const float* x, const long* labels, float* losses, float* dx, int n, float share) {
  x += static_cast<long>(blockIdx.x) * n, dx += static_cast<long>(blockIdx.x) * n;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) top = fmaxf(top, x[i]);
  top = block_largest(top);
  for (int i = threadIdx.x; i < n; i += 256) sum += expf(x[i] - top);
  sum = block_sum(sum);
  const long label = labels[blockIdx.x];
  for (int i = threadIdx.x; i < n; i += 256)
    dx[i] = (expf(x[i] - top) / sum - (i == label ? 1.f : 0.f)) * share;
  if (threadIdx.x == 0) losses[blockIdx.x] = top + logf(sum) - x[label];
}

// Warps: a row in the registers of a warp, 32 numbers for each lane: one read, one exponential for each number, no barrier.
__global__ void __launch_bounds__(256)
    warps(const float* x, const long* labels, float* losses, float* dx, long rows, int n, float share) {
  const long row = static_cast<long>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = threadIdx.x % 32;
  x += row * n, dx += row * n;
  float v[32], top = -INFINITY, sum = 0;
#pragma unroll
  for (int k = 0; k < 32; ++k) {
    v[k] = lane + 32 * k < n ? __ldcs(x + lane + 32 * k) : -INFINITY;
    top = fmaxf(top, v[k]);
  }
  top = softmax::warp_all(top, softmax::larger);
#pragma unroll
  for (int k = 0; k < 32; ++k) sum += v[k] = expf(v[k] - top);
  sum = warp_sum(sum);
  const long label = labels[row];
  const float scale = share / sum;
#pragma unroll
  for (int k = 0; k < 32; ++k)
    if (lane + 32 * k < n) __stcs(dx + lane + 32 * k, v[k] * scale - (lane + 32 * k == label ? share : 0.f));
  if (lane == 0) losses[row] = top + logf(sum) - x[label];
}

// ---- the ladder ----

const long* labels_of(const Call& c) { return c.input<long>(1); }
void mean(const Call& c, const Tensor& losses) {
  launch256(mean_of, dim3(1), losses.data<float>(), c.output<float>(0), c.size(0));
}
void run_apart(const Call& c) {
  const long rows = c.size(0);
  const int n = static_cast<int>(c.size(1));
  const Tensor lse = scratch(rows), losses = scratch(rows);
  launch256(lse_of, dim3(static_cast<unsigned>(rows)), c.input<float>(0), labels_of(c), lse.data<float>(),
            losses.data<float>(), n);
  mean(c, losses);
  launch256(gradient_of, gpu::blocks_for("ladder", rows * n, 256), c.input<float>(0), labels_of(c),
            lse.data<float>(), c.output<float>(1), rows, n);
}
void run_fused(const Call& c) {
  const Tensor losses = scratch(c.size(0));
  launch256(fused, dim3(static_cast<unsigned>(c.size(0))), c.input<float>(0), labels_of(c),
            losses.data<float>(), c.output<float>(1), static_cast<int>(c.size(1)),
            1 / static_cast<float>(c.size(0)));
  mean(c, losses);
}
void run_warps(const Call& c) {
  const Tensor losses = scratch(c.size(0));
  launch256(warps, gpu::blocks_for("ladder", c.size(0), 8), c.input<float>(0), labels_of(c),
            losses.data<float>(), c.output<float>(1), c.size(0), static_cast<int>(c.size(1)),
            1 / static_cast<float>(c.size(0)));
  mean(c, losses);
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cuda);
  ladder.timed = {{f32, {65'536, 1024}}};
  ladder.rungs = {
      {"apart", "loss, then gradient: two reads from memory", run_apart},
      {"fused", "the block that knows the sum writes dx: one read, and two from a cache", run_fused},
      {"warps", "the row stays in a warp's registers: one exponential, no barrier", run_warps}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::cross_entropy
