#include <cooperative_groups.h>

#include <cmath>
#include <utility>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/softmax/softmax.h>

#include "bench/ladders/hopper/softmax.h"
#include "bench/ladders/softmax.cuh"

// y = exp(x - m) / sum(exp(x - m)) for each row of n, m being the row's maximum. A row is wanted three times (maximum, sum,
// result) and the memory should be asked for it once: the rungs differ in where the row stays in between.

namespace ct::ladder::softmax {
namespace {

namespace cg = cooperative_groups;

// Thread per row: three loops, as one would write them for a CPU. Neighbouring lanes read addresses that are a row apart:
// each of a warp's loads touches 32 lines and uses 4 bytes of each, and there are no more threads than rows.
__global__ void thread_per_row(const float* x, float* y, long rows, int n) {
  const long row = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += row * n, y += row * n;
  float m = -INFINITY, sum = 0;
  for (int i = 0; i < n; ++i) m = fmaxf(m, x[i]);
  for (int i = 0; i < n; ++i) sum += expf(x[i] - m);
  for (int i = 0; i < n; ++i) y[i] = expf(x[i] - m) / sum;
}

// One value of each thread combined over a block of 1024, in all threads.
template <class Op>
__device__ float block_all(float v, Op op) {
  __shared__ float warps[32];
  v = warp_all(v, op);
  __syncthreads();  // what the call before left has been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  return warp_all(warps[threadIdx.x % 32], op);
}

// Block per row: the threads of a block walk along the row side by side, so reads are coalesced, and combine their maxima
// and sums by shuffles and shared memory. The row is still read three times. The second and third time it lies in a
// cache, if the rows of all resident blocks fit there: short rows do; 264 rows of 256 KiB are more than the second level
// has. A short row has the other trouble: a thread has one element of it, and waits for the others four times.
__global__ void __launch_bounds__(1024) block_per_row(const float* x, float* y, int n) {
  x += static_cast<long>(blockIdx.x) * n, y += static_cast<long>(blockIdx.x) * n;
  float m = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += 1024) m = fmaxf(m, x[i]);
  m = block_all(m, larger);
  for (int i = threadIdx.x; i < n; i += 1024) sum += expf(x[i] - m);
  sum = block_all(sum, plus);
  for (int i = threadIdx.x; i < n; i += 1024) y[i] = expf(x[i] - m) / sum;
}

// Online: maximum and sum in one walk (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"): when a
// larger maximum turns up, the sum so far is multiplied by exp(old - new). Two reads instead of three, for an exponential
// more per element, and the reads are of 16 bytes. It is the same join that lets attention take its keys block by block.
__global__ void __launch_bounds__(1024) online(const float* x, float* y, int n) {
  const float4* from = reinterpret_cast<const float4*>(x + static_cast<long>(blockIdx.x) * n);
  float4* to = reinterpret_cast<float4*>(y + static_cast<long>(blockIdx.x) * n);
  Running r;
  for (int i = threadIdx.x; i < n / 4; i += 1024) {
    const float4 p = from[i];
    const float top = fmaxf(fmaxf(p.x, p.y), fmaxf(p.z, p.w));
    r.join(top, expf(p.x - top) + expf(p.y - top) + expf(p.z - top) + expf(p.w - top));
  }
  const float m = block_all(r.m, larger);
  const float scale = 1 / block_all(r.m == -INFINITY ? 0.f : r.sum * expf(r.m - m), plus);
  for (int i = threadIdx.x; i < n / 4; i += 1024) {
    const float4 p = from[i];
    to[i] = {expf(p.x - m) * scale, expf(p.y - m) * scale, expf(p.z - m) * scale, expf(p.w - m) * scale};
  }
}

// A row in memory, each vector of which is read and written once.
__device__ auto from(const float* row) {
  return [at = reinterpret_cast<const float4*>(row)](int i) { return __ldcs(at + i); };
}
__device__ auto to(float* row) {
  return [at = reinterpret_cast<float4*>(row)](int i, float4 v) { __stcs(at + i, v); };
}

// Warp per row: a row of 1024 is 8 vectors of 16 bytes for each lane, so it fits in the registers of one warp. It is read
// once, its maximum and sum are ten shuffles and no barrier, and warps do not wait for each other: while one computes,
// others have their rows on the way. This is what short rows want.
template <int kVectors>
__global__ void __launch_bounds__(256) warp_per_row(const float* x, float* y, long rows, int n) {
  const long row = static_cast<long>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  Share<kVectors> share(n / 4, threadIdx.x % 32, 32, from(x + row * n));
  const float sum = warp_all(share.exponentials(warp_all(share.max(), larger)), plus);
  share.store(1 / sum, to(y + row * n));
}

// Cluster per row: a row of 65,536 is 256 KiB, more than a multiprocessor should keep of one row. Eight blocks that run at
// once on neighbouring multiprocessors (a cluster, compute capability 9.0) keep an eighth each in registers and send
// each other their maxima and sums through shared memory, which blocks of a cluster may write to in one another. Again
// the row is read once. Each exchange waits for the slowest of the blocks; that is hidden only
// so far as several clusters share the multiprocessors.
constexpr int kBlocks = 8, kClusterThreads = 512;
template <class Op>
__device__ float cluster_all(float v, float (&slots)[kBlocks * kClusterThreads / 32], Op op) {
#if __CUDA_ARCH__ >= 900
  const cg::cluster_group cluster = cg::this_cluster();
  constexpr int kWarps = kClusterThreads / 32;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  v = warp_all(v, op);
  if (lane < kBlocks) cluster.map_shared_rank(slots, lane)[cluster.block_rank() * kWarps + warp] = v;
  cluster.sync();
  v = slots[lane];
  for (int i = lane + 32; i < kBlocks * kWarps; i += 32) v = op(v, slots[i]);
  return warp_all(v, op);
#else
  return v;
#endif
}
template <int kVectors>
__global__ void __launch_bounds__(kClusterThreads) cluster_per_row(const float* x, float* y, int n) {
#if __CUDA_ARCH__ >= 900
  __shared__ float maxima[kBlocks * kClusterThreads / 32], sums[kBlocks * kClusterThreads / 32];
  const long row = static_cast<long>(blockIdx.x / kBlocks) * n;
  cg::this_cluster().sync();  // no thread writes to a block that has not begun
  Share<kVectors> share(n / 4, blockIdx.x % kBlocks * kClusterThreads + threadIdx.x,
                        kBlocks * kClusterThreads, from(x + row));
  const float m = cluster_all(share.max(), maxima, larger);
  share.store(1 / cluster_all(share.exponentials(m), sums, plus), to(y + row));
#endif
}

// Exchange once: a warp takes its exponentials against its own maximum and sends both, maximum and sum; who has them all
// joins them as the online rung does. One wait for the slowest block instead of two, and the wait for blocks that have not
// begun is over while the row is on its way.
template <int kVectors>
__global__ void __launch_bounds__(kClusterThreads) exchange_once(const float* x, float* y, int n) {
#if __CUDA_ARCH__ >= 900
  constexpr int kWarps = kClusterThreads / 32, kAll = kBlocks * kWarps;
  __shared__ float2 slots[kAll];
  const cg::cluster_group cluster = cg::this_cluster();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const long row = static_cast<long>(blockIdx.x / kBlocks) * n;
  auto begun = cluster.barrier_arrive();
  Share<kVectors> share(n / 4, blockIdx.x % kBlocks * kClusterThreads + threadIdx.x,
                        kBlocks * kClusterThreads, from(x + row));
  cluster.barrier_wait(std::move(begun));
  const float m = warp_all(share.max(), larger);
  const float sum = warp_all(share.exponentials(m == -INFINITY ? 0 : m), plus);
  if (lane < kBlocks) cluster.map_shared_rank(slots, lane)[cluster.block_rank() * kWarps + warp] = {m, sum};
  cluster.sync();
  share.store(factor(slots, kAll, m), to(y + row));
#endif
}

// ---- the ladders ----

template <class Kernel>
void block_each(const Call& c, Kernel kernel) {
  ct::gpu::launch("ladder", kernel, static_cast<unsigned>(c.size(0)), 1024, 0, c.input<float>(0),
                  c.output<float>(0), c.size(1));
}
void launch_thread(const Call& c) {
  ct::gpu::launch("ladder", thread_per_row, ct::gpu::blocks_for("ladder", c.size(0), 64), 64, 0,
                  c.input<float>(0), c.output<float>(0), c.size(0), c.size(1));
}
void launch_block(const Call& c) { block_each(c, block_per_row); }
void launch_online(const Call& c) { block_each(c, online); }
void launch_warp(const Call& c) {
  ct::gpu::launch("ladder", warp_per_row<8>, ct::gpu::blocks_for("ladder", c.size(0), 8), 256, 0,
                  c.input<float>(0), c.output<float>(0), c.size(0), c.size(1));
}
template <void (*kernel)(const float*, float*, int)>
void launch_cluster(const Call& c) {
  CT_CHECK(gpu::compiled_arch<kernel>("ladder") >= 900, CudaError, "ladder",
           "this build has no code for clusters; configure it with -DCOTANGENT_CUDA_ARCHITECTURES=90a-real");
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kBlocks, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(c.size(0) * kBlocks));
  config.blockDim = dim3(kClusterThreads);
  config.stream = ct::gpu::native_stream();
  config.attrs = &attribute, config.numAttrs = 1;
  CT_CUDA_OP("ladder", cudaLaunchKernelEx(&config, kernel, c.input<float>(0), c.output<float>(0),
                                          static_cast<int>(c.size(1))));
}

double bytes(const Case& c) { return 8.0 * static_cast<double>(c.size[0]) * static_cast<double>(c.size[1]); }
Tensors inputs(const Case& c) { return {ct::randn({c.size[0], c.size[1]})}; }
Tensors softmax_of_rows(const Tensors& in) { return {ct::softmax(in[0], -1)}; }

const Rung kBlock = {"block-per-row", "a row's threads side by side: coalesced, three reads", launch_block};
const Rung kOnline = {"online", "maximum and sum in one walk: two reads, by 16 bytes", launch_online};

const bool kShort = ct::ladder::add({
    .name = "softmax",
    .what = "y = softmax(x) along rows; rows x their length, which fits in a warp's registers",
    .device = ct::DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{ct::f32, {37, 1000}}, {ct::f32, {3, 4}}},
    .timed = {{ct::f32, {131'072, 1024}}},
    .work = bytes,
    .inputs = inputs,
    .plain = softmax_of_rows,
    .library = softmax_of_rows,
    .library_name = "ct::softmax",
    .rungs = {{"thread-per-row", "three loops, as for a CPU", launch_thread},
              kBlock,
              kOnline,
              {"warp-per-row", "the row stays in a warp's registers: one read, no barrier", launch_warp}},
});
const bool kLong = ct::ladder::add({
    .name = "softmax-long",
    .what = "y = softmax(x) along rows; rows x their length, too long for one multiprocessor's caches",
    .device = ct::DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{ct::f32, {5, 20'000}}, {ct::f32, {2, 65'536}}},
    .timed = {{ct::f32, {2048, 65'536}}},
    .work = bytes,
    .inputs = inputs,
    .plain = softmax_of_rows,
    .library = softmax_of_rows,
    .library_name = "ct::softmax",
    .rungs =
        {
            kBlock,
            kOnline,
            {.name = "cluster-per-row",
             .why = "eight blocks keep the row in their registers: one read",
             .run = launch_cluster<cluster_per_row<4>>,
             .hopper = true},
            {.name = "exchange-once",
             .why = "maximum and sum are sent together: one wait instead of two",
             .run = launch_cluster<exchange_once<4>>,
             .hopper = true},
#if COTANGENT_SM90A
            {.name = "copy-engine",
             .why = "clusters stay, and the next rows come while this one is reduced",
             .run = copy_engine,
             .hopper = true},
#endif
        },
});

}  // namespace
}  // namespace ct::ladder::softmax
