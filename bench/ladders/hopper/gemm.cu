#include "bench/ladders/hopper/gemm.h"

#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/mma/tensor_map.h>
#include <cotangent/core/cuda/mma/hopper_tile.cuh>

// The rungs of gemm that only Hopper has instructions for (core/cuda/mma/hopper_ptx.cuh): C[m, n] = A[m, k] B[k, n] of
// bf16, summed in f32. m, n and k are multiples of 256.

namespace ct::ladder::gemm {
namespace {

// Rung "wgmma". One instruction multiplies 64 x 16 by 16 x 256, for the four warps of a warpgroup, and reads both operands
// from shared memory: no thread loads fragments any more, and the instruction runs while the warps wait. The copy engine
// (TMA) fills shared memory: one thread asks for a box of a matrix, the engine finds the addresses, permutes the chunks
// and counts the bytes at a barrier. So the threads of a block part: a producer asks for stage after stage, of which
// there are four, and two warpgroups of consumers, each with 64 of a block's 128 x 256 of C in registers (128 numbers a
// thread; the producer gives its own registers up for that), multiply what is there. Two barriers for each stage keep
// them together: `full` says that its bytes have come, `empty` that it has been read. An instruction of the stage before
// is still running when the next is begun: the tensor cores never wait for a barrier.
//
// Rung "persistent". A block that ends leaves its multiprocessor idle until the next has set up its barriers and filled
// its stages. So there are as many blocks as multiprocessors, and each takes tile after tile: while consumers store one,
// the producer is already loading the next. Tiles that are under way at the same time are 16 x 8 of the matrix, near a
// square: their reads of A and B are then fewest, and mostly in the second-level cache.

constexpr int kM = 128, kN = 256, kK = 64, kStages = 4;
using TileA = ct::mma::PanelTile<kM, kK>;
using TileB = ct::mma::PanelTile<kK, kN>;
constexpr int kStageBytes = TileA::bytes + TileB::bytes;
constexpr int kSharedBytes = kStages * kStageBytes + 1024;  // panels start at multiples of 1024
constexpr int kBand = 16;

// The first row and column of C that tile number `tile` has: bands of kBand tiles are walked column by column.
__device__ int2 place(int tile, int rows, int columns) {
  const int band = tile / (kBand * columns), high = min(kBand, rows - band * kBand),
            in = tile - band * kBand * columns;
  return {(band * kBand + in % high) * kM, in / high * kN};
}

// Rows of A and of B as boxes of 64 numbers; blocks take tiles from their own number on, gridDim.x apart.
__global__ void __launch_bounds__(384, 1)
    wgmma_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                 std::uint32_t* c, int m, int n, int k) {
  using namespace ct::mma;
  extern __shared__ uint4 memory[];
  __shared__ std::uint64_t barriers[2 * kStages];
  const std::uint32_t tiles = (shared_address(memory) + 1023) & ~1023u;
  const auto full = [&](int stage) { return shared_address(barriers + stage); };
  const auto empty = [&](int stage) { return shared_address(barriers + kStages + stage); };
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(full(stage), 1);
      barrier_init(empty(stage), 8);  // the warps of the consumers
    }
    barrier_init_fence();
  }
  __syncthreads();
  const int rows = m / kM, columns = n / kN;
  Ring<kStages> ring;

  if (threadIdx.x < 128) {
    registers_shrink<40>();
    if (threadIdx.x == 0)
      for (int t = static_cast<int>(blockIdx.x); t < rows * columns; t += static_cast<int>(gridDim.x)) {
        const int2 at = place(t, rows, columns);
        for (int p = 0; p < k; p += kK, ring.advance()) {
          barrier_wait(empty(ring.stage), ring.parity ^ 1);
          barrier_expect(full(ring.stage), kStageBytes);
          const std::uint32_t a = tiles + ring.stage * kStageBytes, b = a + TileA::bytes;
          copy_box(a, &map_a, full(ring.stage), p, at.x, 0, 0);
#pragma unroll
          for (int panel = 0; panel < kN / 64; ++panel)
            copy_box(b + panel * TileB::panel_bytes, &map_b, full(ring.stage), at.y + 64 * panel, p, 0, 0);
        }
      }
  } else {
    registers_grow<232>();
    const int warp = static_cast<int>(threadIdx.x) / 32 - 4, lane = static_cast<int>(threadIdx.x) % 32;
    for (int t = static_cast<int>(blockIdx.x); t < rows * columns; t += static_cast<int>(gridDim.x)) {
      const int2 at = place(t, rows, columns);
      float sums[kN / 2];
      int before = 0;
      for (int p = 0; p < k; p += kK, ring.advance()) {
        barrier_wait(full(ring.stage), ring.parity);
        const std::uint32_t a = tiles + ring.stage * kStageBytes, b = a + TileA::bytes;
        products_begin();
#pragma unroll
        for (int step = 0; step < kK / 16; ++step)
          product<BFloat16, 0, 1, kN>(sums, TileA::by_channel(a, warp / 4 * 64, step), TileB::by_row(b, step),
                                      p + step > 0);
        products_commit();
        products_wait<1>();
        if (p > 0 && lane == 0) barrier_arrive(empty(before));
        before = ring.stage;
      }
      products_wait<0>();
      if (lane == 0) barrier_arrive(empty(before));
      pin(sums);
      // Lane 4 r + s has of row r, and of row r + 8, columns 2 s and 2 s + 1 of each eight.
      const std::int64_t row = at.x + warp * 16 + lane / 4;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          c[((row + 8 * half) * n + at.y) / 2 + 4 * j + lane % 4] =
              pack<BFloat16>(sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
    }
  }
}

// A matrix of bf16 in boxes of `box_rows` rows by 64 columns, permuted as the products want them.
CUtensorMap boxes(const void* data, std::int64_t rows, std::int64_t columns, int box_rows) {
  const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows), 1, 1};
  const cuuint64_t strides[3] = {sizes[0] * 2, sizes[0] * sizes[1] * 2, sizes[0] * sizes[1] * 2};
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(box_rows), 1, 1}, steps[4] = {1, 1, 1, 1};
  CUtensorMap map;
  const auto encode = ct::mma::tensor_map_encoder();
  CT_CHECK(encode != nullptr, CudaError, "gemm",
           "the driver has no cuTensorMapEncodeTiled; it must be of CUDA 12 or later");
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<void*>(data), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CT_CHECK(result == CUDA_SUCCESS, CudaError, "gemm", "cuTensorMapEncodeTiled failed with code ",
           static_cast<int>(result), "; it was given ", rows, " rows of ", columns, " numbers");
  return map;
}

void run(const Call& call, bool persistent) {
  const std::int64_t m = call.size(0), n = call.size(1), k = call.size(2);
  const std::int64_t tiles = m / kM * (n / kN);
  const auto blocks =
      static_cast<unsigned>(persistent ? std::min<std::int64_t>(tiles, gpu::multiprocessors()) : tiles);
  gpu::launch("gemm", wgmma_kernel, blocks, 384, kSharedBytes, boxes(call.in[0].raw_data(), m, k, kM),
              boxes(call.in[1].raw_data(), k, n, kK), call.output<std::uint32_t>(0), static_cast<int>(m),
              static_cast<int>(n), static_cast<int>(k));
}

}  // namespace

void wgmma(const Call& call) { run(call, false); }
void wgmma_persistent(const Call& call) { run(call, true); }

}  // namespace ct::ladder::gemm
