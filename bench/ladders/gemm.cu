#include "bench/ladders/gemm.h"

#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/mma/tile.cuh>

#include "bench/ladders/gemm_pipeline.cuh"
#include "bench/ladders/hopper/gemm.h"

// gemm on the GPU: C[m, n] = A[m, k] B[k, n], all contiguous, of f32 and, from rung "mma" on, of bf16 with sums of f32.
// m, n and k are multiples of 256: what happens at edges is another story, and makes none of these faster.

namespace ct::ladder::gemm {
namespace {

struct Sizes {
  int m, n, k;
  explicit Sizes(const Call& call)
      : m(static_cast<int>(call.size(0))),
        n(static_cast<int>(call.size(1))),
        k(static_cast<int>(call.size(2))) {}
};

// Launches a kernel of (a, b, c, n, k) whose blocks of `block` threads take `rows` x `cols` of C each; with `by_rows`
// blockIdx.x counts along the rows.
void launch(const Call& call, void (*kernel)(const float*, const float*, float*, int, int), dim3 block,
            int rows, int cols, bool by_rows = false) {
  const Sizes s(call);
  const unsigned down = static_cast<unsigned>(s.m / rows), across = static_cast<unsigned>(s.n / cols);
  gpu::launch("gemm", kernel, by_rows ? dim3(down, across) : dim3(across, down), block, 0,
              call.input<float>(0), call.input<float>(1), call.output<float>(0), s.n, s.k);
}

// Rung "naive". A thread for each number of C, neighbouring threads in neighbouring rows. The threads of a warp walk along
// 32 rows of A at once: each of their loads is 32 numbers that lie a row apart, 32 transactions for 128 bytes.
__global__ void naive_kernel(const float* a, const float* b, float* c, int n, int k) {
  const std::int64_t i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
  float sum = 0;
  for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[static_cast<std::int64_t>(p) * n + j];
  c[i * n + j] = sum;
}
void naive(const Call& call) { launch(call, naive_kernel, dim3(32, 32), 32, 32, true); }

// Rung "coalesced". The same with neighbouring threads in neighbouring columns. A load of B is now 128 bytes side by side,
// one transaction; a load of A is the same number for the whole warp. Not a line of arithmetic has changed.
__global__ void coalesced_kernel(const float* a, const float* b, float* c, int n, int k) {
  const std::int64_t i = blockIdx.y * 32 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[static_cast<std::int64_t>(p) * n + j];
  c[i * n + j] = sum;
}
void coalesced(const Call& call) { launch(call, coalesced_kernel, dim3(32, 32), 32, 32); }

// Rung "shared-tiles". A block of 32 x 32 threads reads the same 32 rows of A and columns of B 32 times over. It loads a
// tile of each into shared memory once, together, and multiplies out of there: 32 times fewer loads from memory. The
// barriers keep a tile from being read before it is whole, and from being overwritten while it is read.
__global__ void shared_tiles_kernel(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float tile_a[32][32], tile_b[32][32];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const std::int64_t i = blockIdx.y * 32 + y, j = blockIdx.x * 32 + x;
  float sum = 0;
  for (int p0 = 0; p0 < k; p0 += 32) {
    tile_a[y][x] = a[i * k + p0 + x];
    tile_b[y][x] = b[static_cast<std::int64_t>(p0 + y) * n + j];
    __syncthreads();
    for (int p = 0; p < 32; ++p) sum += tile_a[y][p] * tile_b[p][x];
    __syncthreads();
  }
  c[i * n + j] = sum;
}
void shared_tiles(const Call& call) { launch(call, shared_tiles_kernel, dim3(32, 32), 32, 32); }

// Rung "register-tiles". Each multiply-add of the rung before takes two loads from shared memory, which has one access for
// the 128 multiply-adds that a multiprocessor could make meanwhile. So a thread computes 8 x 8 numbers of C: for 16
// loads 64 multiply-adds out of registers. A block's tile of C grows to 128 x 128, for which memory is read four times
// less. A's tile is stored by columns: a thread's operands of a step then lie side by side.
constexpr int kTile = 128, kDepth = 8;
__global__ void __launch_bounds__(256)
    register_tiles_kernel(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float tile_a[kDepth][kTile], tile_b[kDepth][kTile];
  const int t = static_cast<int>(threadIdx.x), x = t % 16 * 8, y = t / 16 * 8;
  const std::int64_t i0 = blockIdx.y * kTile, j0 = blockIdx.x * kTile;
  float sum[8][8] = {};
  for (int p0 = 0; p0 < k; p0 += kDepth) {
    for (int e = t; e < kDepth * kTile; e += 256) {
      tile_a[e % kDepth][e / kDepth] = a[(i0 + e / kDepth) * k + p0 + e % kDepth];
      tile_b[e / kTile][e % kTile] = b[static_cast<std::int64_t>(p0 + e / kTile) * n + j0 + e % kTile];
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
      float from_a[8], from_b[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) from_a[e] = tile_a[p][y + e], from_b[e] = tile_b[p][x + e];
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += from_a[i] * from_b[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) c[(i0 + y + i) * n + j0 + x + j] = sum[i][j];
}
void register_tiles(const Call& call) { launch(call, register_tiles_kernel, dim3(256), kTile, kTile); }

// Rung "vectors". The same tiles, moved in words of four numbers: a quarter of the instructions. A thread's eight columns
// are two groups of four, 64 apart, so that a warp's threads read 16 bytes each side by side; eight in a row would put
// every second thread into the banks of its neighbour. The next tile's numbers are asked for before this one is
// multiplied, and wait in registers.
__global__ void __launch_bounds__(256)
    vectors_kernel(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float4 tile_a[kDepth][kTile / 4], tile_b[kDepth][kTile / 4];
  const int t = static_cast<int>(threadIdx.x), x = t % 16, y = t / 16;
  const std::int64_t i0 = blockIdx.y * kTile, j0 = blockIdx.x * kTile;
  // Each thread moves four numbers of either: of A in row t / 2, of B in row t / 32.
  const float4* next_a = reinterpret_cast<const float4*>(a + (i0 + t / 2) * k) + t % 2;
  const float4* next_b =
      reinterpret_cast<const float4*>(b + static_cast<std::int64_t>(t / 32) * n + j0) + t % 32;
  float4 part_a = *next_a, part_b = *next_b;
  float sum[8][8] = {};
  for (int p0 = 0; p0 < k; p0 += kDepth) {
#pragma unroll
    for (int e = 0; e < 4; ++e) reinterpret_cast<float*>(tile_a[t % 2 * 4 + e])[t / 2] = (&part_a.x)[e];
    tile_b[t / 32][t % 32] = part_b;
    __syncthreads();
    if (p0 + kDepth < k) {
      next_a += kDepth / 4, next_b += kDepth * n / 4;
      part_a = *next_a, part_b = *next_b;
    }
#pragma unroll
    for (int p = 0; p < kDepth; ++p) {
      const float4 rows[2] = {tile_a[p][y], tile_a[p][16 + y]}, cols[2] = {tile_b[p][x], tile_b[p][16 + x]};
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += (&rows[i / 4].x)[i % 4] * (&cols[j / 4].x)[j % 4];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      *reinterpret_cast<float4*>(c + (i0 + i / 4 * 64 + y * 4 + i % 4) * n + j0 + j * 64 + x * 4) =
          make_float4(sum[i][4 * j], sum[i][4 * j + 1], sum[i][4 * j + 2], sum[i][4 * j + 3]);
}
void vectors(const Call& call) { launch(call, vectors_kernel, dim3(256), kTile, kTile); }

struct Same {
  __device__ float operator()(float sum, int) const { return sum; }
};
void double_buffer(const Call& call) {
  const Sizes s(call);
  launch_pipeline<Best>(s.m, s.n, s.k, call.input<float>(0), call.input<float>(1), call.output<float>(0),
                        Same{});
}

// Rung "mma". A tensor core multiplies 16 x 16 by 16 x 8 numbers of 16 bits in one instruction of a warp: as many
// multiply-adds as 64 instructions make in f32. So everything else must become cheap. ldmatrix brings four 8 x 8 matrices
// from shared memory into the registers as the instruction wants them. Chunks of 16 bytes are permuted by their row's
// number (swizzled), so that those eight rows lie in different banks (core/cuda/mma/tile.cuh). cp.async keeps two stages
// ahead. A warp has 64 x 32 of the block's 128 x 128.
constexpr int kStages = 3, kStep = 64;
using TileA = mma::Tile<kStep>;
using TileB = mma::Tile<128>;
constexpr int kBytesA = 128 * TileA::row_bytes, kBytesB = kStep * TileB::row_bytes,
              kBytes = kBytesA + kBytesB;

__global__ void __launch_bounds__(256)
    mma_kernel(const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* c, int n, int k) {
  extern __shared__ uint4 memory[];
  const std::uint32_t shared = mma::shared_address(memory);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp / 4 * 64, column = warp % 4 * 32;
  a += static_cast<std::int64_t>(blockIdx.y) * 128 * k;
  b += blockIdx.x * 128;
  const auto load = [&](int step) {
    if (step * kStep < k) {
      const std::uint32_t to = shared + step % kStages * kBytes;
      TileA::load<128, 256>(to, a + step * kStep, k, 128, kStep / 8);
      TileB::load<kStep, 256>(to + kBytesA, b + static_cast<std::int64_t>(step) * kStep * n, n, kStep,
                              128 / 8);
    }
    mma::copy_async_commit();
  };
  float sum[4][4][4] = {};  // 4 x 4 tiles of 16 x 8
  for (int step = 0; step < kStages - 1; ++step) load(step);
  for (int step = 0; step * kStep < k; ++step) {
    mma::copy_async_wait<kStages - 2>();
    __syncthreads();
    load(step + kStages - 1);
    const std::uint32_t tile_a = shared + step % kStages * kBytes, tile_b = tile_a + kBytesA;
#pragma unroll
    for (int p = 0; p < kStep; p += 16) {
      std::uint32_t from_a[4][4], from_b[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) mma::load_matrices(from_a[i], TileA::block(tile_a, row + 16 * i, p / 8));
#pragma unroll
      for (int j = 0; j < 2; ++j)
        mma::load_matrices_transposed(from_b[j], TileB::block(tile_b, p, (column + 16 * j) / 8));
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          mma::multiply_add<BFloat16>(sum[i][j], from_a[i], from_b[j / 2][j % 2 * 2],
                                      from_b[j / 2][j % 2 * 2 + 1]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t at_row = blockIdx.y * 128 + row + 16 * i + 8 * half + lane / 4;
        const std::int64_t at_column = blockIdx.x * 128 + column + 8 * j + lane % 4 * 2;
        *reinterpret_cast<std::uint32_t*>(c + at_row * n + at_column) =
            mma::pack<BFloat16>(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
      }
}
void mma(const Call& call) {
  const Sizes s(call);
  gpu::launch("gemm", mma_kernel, dim3(s.n / 128, s.m / 128), 256, kStages * kBytes,
              call.input<std::uint16_t>(0), call.input<std::uint16_t>(1), call.output<std::uint16_t>(0), s.n,
              s.k);
}

const bool kAdded = ct::ladder::add({
    .name = "gemm",
    .what = kWhat,
    .device = DeviceType::cuda,
    .unit = Unit::flops,
    .small =
        {{f32, {256, 256, 256}}, {f32, {512, 256, 768}}, {bf16, {256, 256, 256}}, {bf16, {512, 768, 1024}}},
    .timed = {{f32, {4096, 4096, 4096}}, {bf16, {8192, 8192, 8192}}},
    .work = work,
    .inputs = inputs,
    .plain = plain,
    .library = library,
    .library_name = "cuBLASLt",
    .rungs =
        {
            {"naive", "a thread for each number of C", naive},
            {"coalesced", "neighbouring threads read neighbouring numbers", coalesced},
            {"shared-tiles", "a block loads what all its threads read once, into shared memory",
             shared_tiles},
            {"register-tiles", "a thread computes 8 x 8 numbers out of registers", register_tiles},
            {"vectors", "four numbers an access, without conflicts of banks", vectors},
            {"double-buffer", "the next steps are on their way while one is multiplied", double_buffer},
            {"mma", "tensor cores, by instructions of a warp", mma, {bf16}},
#if COTANGENT_SM90A
            {"wgmma",
             "tensor cores, by instructions of four warps on shared memory that TMA fills",
             wgmma,
             {bf16},
             true},
            {"persistent",
             "blocks stay and take tile after tile, and the next one loads while one is stored",
             wgmma_persistent,
             {bf16},
             true},
#endif
        },
});

}  // namespace
}  // namespace ct::ladder::gemm
