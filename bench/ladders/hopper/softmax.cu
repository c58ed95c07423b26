#include "bench/ladders/hopper/softmax.h"

#include <cooperative_groups.h>

#include <algorithm>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/mma/hopper_ptx.cuh>

#include "bench/ladders/softmax.cuh"

// The last rung of softmax along long rows, in a file of its own: the copy engine is Hopper's.

namespace ct::ladder::softmax {
namespace {

namespace cg = cooperative_groups;

// Copy engine. In the rungs before, memory is idle while a row is reduced, but for what other clusters happen to do. Here
// clusters stay and walk over the rows, and each block has room for its eighth of three of them in shared memory: one is
// worked on, the others are on their way. No thread loads them: one hands whole runs of bytes to the copy engine (TMA),
// which counts them at a barrier in shared memory, and the results go back as such a run, from where the row lay.
// The pairs are counted as well: a block sends them (st.async) and goes on, and waits at a barrier of its own until those
// of all have come. The barrier of the cluster, which the rungs before had, also waits until what the threads wrote
// before is seen by all, at each row.
constexpr int kBlocks = 8, kThreads = 256, kVectors = 8, kRows = 3, kWarps = kThreads / 32,
              kAll = kBlocks * kWarps;

// Writes `pair` where `place` lies in block `to` of the cluster, whose barrier counts its bytes.
__device__ void send(float2 pair, const float2* place, std::uint32_t barrier, int to) {
  asm volatile(
      "{\n.reg .b32 there, count;\n.reg .b64 both;\n"
      "mapa.shared::cluster.u32 there, %0, %4;\n"
      "mapa.shared::cluster.u32 count, %1, %4;\n"
      "mov.b64 both, {%2, %3};\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [there], both, [count];\n}" ::"r"(
          mma::shared_address(place)),
      "r"(barrier), "f"(pair.x), "f"(pair.y), "r"(to)
      : "memory");
}

__global__ void __launch_bounds__(kThreads, 2) kernel(const float* x, float* y, int rows, int n) {
  extern __shared__ float4 memory[];
  __shared__ std::uint64_t arrived[kRows + 2];  // a row in each slot, the pairs in each memory
  __shared__ float2 pairs[2][kAll];
  const cg::cluster_group cluster = cg::this_cluster();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = static_cast<int>(cluster.block_rank());
  const int room = (n / 4 + kBlocks - 1) / kBlocks, packs = max(0, min(room, n / 4 - rank * room));
  const unsigned bytes = 16u * packs;
  const int step = gridDim.x / kBlocks;
  x += 4 * rank * room, y += 4 * rank * room;
  const auto barrier = [&](int i) { return mma::shared_address(&arrived[i]); };
  const auto request = [&](int row, int slot) {
    if (row >= rows) return;
    mma::barrier_expect(barrier(slot), bytes);
    if (packs > 0)
      mma::copy_run(mma::shared_address(memory + slot * room), x + static_cast<long>(row) * n, bytes,
                    barrier(slot));
  };
  const int first = blockIdx.x / kBlocks;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRows + 2; ++i) mma::barrier_init(barrier(i), 1);
    mma::barrier_init_fence();
    for (int slot = 0; slot < kRows - 1; ++slot) request(first + slot * step, slot);
  }
  cluster.sync();  // all blocks have begun, and their barriers are there
  for (int row = first, turn = 0; row < rows; row += step, ++turn) {
    const int slot = turn % kRows;
    float4* const here = memory + slot * room;
    mma::barrier_wait(barrier(slot), turn / kRows % 2);
    Share<kVectors> share(packs, threadIdx.x, kThreads, [&](int i) { return here[i]; });
    const float m = warp_all(share.max(), larger);
    const float sum = warp_all(share.exponentials(m == -INFINITY ? 0 : m), plus);
    // Two memories take turns: who sends to one again has had the pairs that all sent after they had read it.
    const int half = turn % 2;
    float2(&all)[kAll] = pairs[half];
    if (threadIdx.x == 0) mma::barrier_expect(barrier(kRows + half), sizeof all);
    if (lane < kBlocks) send({m, sum}, &all[rank * kWarps + warp], barrier(kRows + half), lane);
    __syncwarp();
    mma::barrier_wait(barrier(kRows + half), turn / 2 % 2);
    share.store(factor(all, kAll, m), [&](int i, float4 v) { here[i] = v; });
    mma::async_proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
      mma::stores_wait_read();  // the row before is gone: there is room for the next but one
      request(row + (kRows - 1) * step, (turn + kRows - 1) % kRows);
      if (packs > 0) mma::store_run(y + static_cast<long>(row) * n, mma::shared_address(here), bytes);
      mma::stores_commit();
    }
  }
  if (threadIdx.x == 0) mma::stores_wait_read();  // whose shared memory goes with the block
}

}  // namespace

void copy_engine(const Call& call) {
  const int rows = static_cast<int>(call.size(0)), n = static_cast<int>(call.size(1));
  const int bytes = 16 * kRows * ((n / 4 + kBlocks - 1) / kBlocks);
  CT_CUDA_OP("ladder", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kBlocks, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kBlocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(bytes);
  config.stream = gpu::native_stream();
  config.attrs = &attribute, config.numAttrs = 1;
  int clusters = 0;
  CT_CUDA_OP("ladder", cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  config.gridDim = dim3(static_cast<unsigned>(kBlocks * std::min(rows, clusters)));
  CT_CUDA_OP("ladder",
             cudaLaunchKernelEx(&config, kernel, call.input<float>(0), call.output<float>(0), rows, n));
}

}  // namespace ct::ladder::softmax
