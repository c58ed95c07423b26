#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/reduce/reduce.h>

#include "bench/ladders/ladder.h"

// The sum of n numbers. One read of the array and nothing else, so the limit is the memory's; but what is to be one
// number must pass through all threads of a block, and that is where the first rungs lose their time. The first seven are
// those of a well-known talk (Harris 2007, "Optimizing parallel reduction in CUDA"), which is still the best exercise in
// shared memory; some of what they teach has been settled by the hardware since, and the table says which.
//
// Each launch leaves one partial sum per block, and a second launch of the same kernel sums those: no atomics, so that
// the additions have one order and the result the same bits in every run.

namespace ct::ladder::reduce {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float at(const float* x, long i, long n) { return i < n ? x[i] : 0.f; }

// Modulo: a tree in shared memory. In step s the threads whose number is a multiple of 2 s add what lies s further. Each
// step halves the work, but the threads that have some are spread over all warps: with s = 16 one lane of 32 works, the
// others wait in step with it. And `%` by a number that is not a constant is some 20 instructions.
__global__ void modulo(const float* x, float* partial, long n) {
  __shared__ float sum[kThreads];
  const int t = threadIdx.x;
  sum[t] = at(x, static_cast<long>(blockIdx.x) * kThreads + t, n);
  __syncthreads();
  for (int s = 1; s < kThreads; s *= 2) {
    if (t % (2 * s) == 0) sum[t] += sum[t + s];
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = sum[0];
}

// Dense threads: the same tree, the same pairs, but pair number t is added by thread t. The working threads are the first
// ones, so whole warps drop out and cost nothing. The price: thread t reads word 2 s t, and shared memory has 32 banks by
// the word's number modulo 32. With s = 16 all lanes of a warp want the same bank and are served one after the other: on
// the GPU of the table that costs more than it saves.
__global__ void dense_threads(const float* x, float* partial, long n) {
  __shared__ float sum[kThreads];
  const int t = threadIdx.x;
  sum[t] = at(x, static_cast<long>(blockIdx.x) * kThreads + t, n);
  __syncthreads();
  for (int s = 1; s < kThreads; s *= 2) {
    const int i = 2 * s * t;
    if (i < kThreads) sum[i] += sum[i + s];
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = sum[0];
}

// Halves: the tree from its other end. In every step the upper half of what is left is added to the lower, so thread t
// reads words t and t + s: neighbouring lanes, neighbouring banks, no conflict. It also sums other pairs than the two
// before, hence other last bits; each of these orders is as good as the next, and all beat a running sum, whose error
// grows with n and not with log n.
__global__ void halves(const float* x, float* partial, long n) {
  __shared__ float sum[kThreads];
  const int t = threadIdx.x;
  sum[t] = at(x, static_cast<long>(blockIdx.x) * kThreads + t, n);
  __syncthreads();
  for (int s = kThreads / 2; s > 0; s /= 2) {
    if (t < s) sum[t] += sum[t + s];
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = sum[0];
}

// First add: so far half of the threads did nothing but load. Here each loads two elements and adds them on the way to
// shared memory: half as many blocks, each with the same tree, so the tree's cost per element is halved.
__global__ void first_add(const float* x, float* partial, long n) {
  __shared__ float sum[kThreads];
  const int t = threadIdx.x;
  const long i = static_cast<long>(blockIdx.x) * 2 * kThreads + t;
  sum[t] = at(x, i, n) + at(x, i + kThreads, n);
  __syncthreads();
  for (int s = kThreads / 2; s > 0; s /= 2) {
    if (t < s) sum[t] += sum[t + s];
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = sum[0];
}

// The sum over a warp, in lane 0. The lanes run in step and read each other's registers (shuffle): no shared memory, no
// barrier. The talk's version of this step used shared memory marked `volatile` and no barrier at all; since lanes may
// drift apart (compute capability 7.0), that is a race, and the shuffle, which takes the mask of who takes part, is how
// it is written.
__device__ __forceinline__ float warp_sum(float v) {
  for (int s = 16; s > 0; s /= 2) v += __shfl_down_sync(~0u, v, s);
  return v;
}

// Last warp: once 32 numbers are left, one warp is left, and the barriers of the last five steps serve no thread. It does
// them with shuffles.
__global__ void last_warp(const float* x, float* partial, long n) {
  __shared__ float sum[kThreads];
  const int t = threadIdx.x;
  const long i = static_cast<long>(blockIdx.x) * 2 * kThreads + t;
  sum[t] = at(x, i, n) + at(x, i + kThreads, n);
  __syncthreads();
  for (int s = kThreads / 2; s > 32; s /= 2) {
    if (t < s) sum[t] += sum[t + s];
    __syncthreads();
  }
  if (t >= 32) return;
  const float v = warp_sum(sum[t] + sum[t + 32]);
  if (t == 0) partial[blockIdx.x] = v;
}

// Unrolled: the number of threads is a template parameter, so the loop is gone, its conditions are known while
// compiling, and no step is left for a block that is too small for it. (Compilers have since learnt to do that for the
// constant of the rungs above, too: expect the same time.)
template <int kBlock>
__global__ void unrolled(const float* x, float* partial, long n) {
  __shared__ float sum[kBlock];
  const int t = threadIdx.x;
  const long i = static_cast<long>(blockIdx.x) * 2 * kBlock + t;
  sum[t] = at(x, i, n) + at(x, i + kBlock, n);
  __syncthreads();
#pragma unroll
  for (int s = kBlock / 2; s > 32; s /= 2) {
    if (t < s) sum[t] += sum[t + s];
    __syncthreads();
  }
  if (t >= 32) return;
  const float v = warp_sum(sum[t] + sum[t + 32]);
  if (t == 0) partial[blockIdx.x] = v;
}

// A block's sum, as the rungs from here on form it: a shuffle tree in each warp, then one over the warps' results. One
// barrier instead of eight.
__device__ __forceinline__ void block_sum(float v, float* partial) {
  __shared__ float warps[32];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  v = warp_sum(threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.f);
  if (threadIdx.x == 0) partial[blockIdx.x] = v;
}

// Many each: blocks as many as are resident walk over the whole array with the grid's width as their step, and a thread
// adds what it meets to a register. One tree for hundreds of elements per thread: its cost is gone, and with it all that
// the rungs before improved. That is the lesson of the seven: not to make the tree fast, but to have few of them.
__global__ void many_each(const float* x, float* partial, long n) {
  float v = 0;
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) v += x[i];
  block_sum(v, partial);
}

// Vectors: loads of 16 bytes, four of them requested before the first is added, into four sums that do not wait for each
// other. Where the rung before already keeps the memory busy there is nothing left to win, only a quarter of the
// instructions. The order of the additions depends on the grid, and the grid on the number of
// multiprocessors: the same bits in every run on one kind of GPU, not on another. The library's `sum` therefore cuts by
// the problem (ops/engine/fold/).
__global__ void vectors(const float* x, float* partial, long n) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x, packs = n / 4;
  const long first = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  float sum[4] = {};
  const auto add = [](float& s, float4 p) { s += (p.x + p.y) + (p.z + p.w); };
  const float4* from = reinterpret_cast<const float4*>(x);
  long i = first;
  for (; i + 3 * step < packs; i += 4 * step) {
    float4 p[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) p[k] = __ldcs(from + i + k * step);
#pragma unroll
    for (int k = 0; k < 4; ++k) add(sum[k], p[k]);
  }
  for (; i < packs; i += step) add(sum[0], from[i]);
  if (first < n % 4) sum[0] += x[packs * 4 + first];
  block_sum((sum[0] + sum[1]) + (sum[2] + sum[3]), partial);
}

// ---- the ladder ----

// Runs a kernel until one number is left; a block takes `each` elements and leaves one.
template <class Kernel>
void in_blocks(const Call& c, Kernel kernel, std::int64_t each) {
  std::int64_t n = c.size(0);
  const float* x = c.input<float>(0);
  ct::Tensor held;
  while (true) {
    const unsigned blocks = ct::gpu::blocks_for("ladder", n, each);
    const ct::Tensor partial = blocks == 1 ? c.out[0] : ct::empty({blocks}, {.device = c.out[0].device()});
    float* to = static_cast<float*>(partial.raw_data());
    ct::gpu::launch("ladder", kernel, blocks, kThreads, 0, x, to, n);
    if (blocks == 1) return;
    held = partial, x = to, n = blocks;
  }
}
// The same for kernels whose blocks stay and walk: as many as are resident, then one.
template <class Kernel>
void resident(const Call& c, Kernel kernel) {
  const std::int64_t n = c.size(0);
  const unsigned blocks = ct::gpu::grid_stride_blocks(n, kThreads, 8);
  const ct::Tensor partial = ct::empty({blocks}, {.device = c.out[0].device()});
  float* sums = static_cast<float*>(partial.raw_data());
  ct::gpu::launch("ladder", kernel, blocks, kThreads, 0, c.input<float>(0), sums, n);
  ct::gpu::launch("ladder", kernel, 1, kThreads, 0, sums, c.output<float>(0), blocks);
}

Tensors inputs(const Case& c) { return {ct::rand({c.size[0]})}; }
Tensors sum_of_all(const Tensors& in) { return {ct::sum(in[0])}; }

const bool kAdded = ct::ladder::add({
    .name = "reduce",
    .what = "y = sum of n numbers",
    .device = ct::DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{ct::f32, {1}}, {ct::f32, {300'007}}},
    .timed = {{ct::f32, {1 << 28}}},
    .work = [](const Case& c) { return 4.0 * static_cast<double>(c.size[0]); },
    .inputs = inputs,
    .plain = sum_of_all,
    .library = sum_of_all,
    .library_name = "ct::sum",
    .rungs = {{"modulo", "a tree in shared memory", [](const Call& c) { in_blocks(c, modulo, kThreads); }},
              {"dense-threads", "the threads that add are neighbours: whole warps drop out",
               [](const Call& c) { in_blocks(c, dense_threads, kThreads); }},
              {"halves", "neighbouring lanes read neighbouring banks",
               [](const Call& c) { in_blocks(c, halves, kThreads); }},
              {"first-add", "every thread loads two: half as many trees",
               [](const Call& c) { in_blocks(c, first_add, 2 * kThreads); }},
              {"last-warp", "the last five steps are shuffles, without barriers",
               [](const Call& c) { in_blocks(c, last_warp, 2 * kThreads); }},
              {"unrolled", "the loop over the tree is known while compiling",
               [](const Call& c) { in_blocks(c, unrolled<kThreads>, 2 * kThreads); }},
              {"many-each", "one tree for hundreds of elements a thread",
               [](const Call& c) { resident(c, many_each); }},
              {"vectors", "four loads of 16 bytes on their way",
               [](const Call& c) { resident(c, vectors); }}},
});

}  // namespace
}  // namespace ct::ladder::reduce
