#pragma once

#include <cstdint>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/walk/plan.h>

// Transposes through shared memory. For .cu files only.
//
// Two axes matter: `a`, along which the source is contiguous, and `b`, along which the destination is. A
// block reads a square of them row by row along a and writes it row by row along b, both in full lines; the
// corner is turned in shared memory. 32-bit and 16-bit elements move 16 bytes per thread and access where
// the layouts are aligned to that; everything else goes element by element. Stores are __stwb, plain ones: an
// assignment of 16 bytes the compiler takes apart here, and stores 4 at a time.

namespace ct {
namespace walk {

struct TransposeParams {
  std::int64_t size_a, size_b;
  std::int64_t dst_a, src_b;  // the other two strides are 1
  unsigned tiles_a, tiles_b;
  int outer;  // further axes
  unsigned size[kMaxRank];
  std::int64_t dst[kMaxRank], src[kMaxRank];
};

struct TransposeTile {
  int a, b;               // how much of the matrix there is from the tile's first element on, at most an edge
  std::int64_t dst, src;  // offsets of that element
};

__device__ __forceinline__ TransposeTile transpose_tile(const TransposeParams& p, int edge) {
  // Panels of 16 tiles along a: the blocks that run at one time cover a compact part of the matrix, several
  // tiles wide on the side that is read and on the side that is written. There are fewer than 2^31 tiles in all, and
  // divisions of 32 bits: before it asks for its first element a block has nothing else to hide them behind.
  const unsigned tiles = p.tiles_a * p.tiles_b;
  unsigned rest = blockIdx.x / tiles;
  const unsigned tile = blockIdx.x - rest * tiles;
  const unsigned panel = tile / (min(p.tiles_a, 16u) * p.tiles_b) * 16;
  const unsigned width = min(p.tiles_a - panel, 16u);
  const unsigned in_panel = tile - panel * p.tiles_b;
  const std::int64_t a = static_cast<std::int64_t>(panel + in_panel % width) * edge;
  const std::int64_t b = static_cast<std::int64_t>(in_panel / width) * edge;
  TransposeTile t;
  t.a = static_cast<int>(min(p.size_a - a, static_cast<std::int64_t>(edge)));
  t.b = static_cast<int>(min(p.size_b - b, static_cast<std::int64_t>(edge)));
  t.dst = b + a * p.dst_a;
  t.src = a + b * p.src_b;
  for (int i = p.outer - 1; i >= 0; --i) {
    const std::int64_t index = rest % p.size[i];
    rest /= p.size[i];
    t.dst += index * p.dst[i];
    t.src += index * p.src[i];
  }
  return t;
}

// Any element size: 32 x 32, one element at a time.
template <class Word>
static __global__ void __launch_bounds__(256)
    transpose_plain(const __grid_constant__ TransposeParams p, Word* __restrict__ dst,
                    const Word* __restrict__ src) {
  __shared__ Word tile[32][33];  // the extra column spreads a column of the tile over all banks
  const TransposeTile t = transpose_tile(p, 32);
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
#pragma unroll
  for (int k = 0; k < 32; k += 8) {
    const int a = x, b = y + k;
    if (a < t.a && b < t.b) tile[b][a] = src[t.src + a + b * p.src_b];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 32; k += 8) {
    const int a = y + k, b = x;
    if (a < t.a && b < t.b) dst[t.dst + b + a * p.dst_a] = tile[b][a];
  }
}

// 32-bit elements: 64 x 64, four at a time. Rows of 65 words: both the writes and the reads of the tile hit
// each bank twice per warp, well above what the memory delivers. 32 registers: as many threads as a multiprocessor has.
static __global__ void __launch_bounds__(256, 8)
    transpose_32bit(const __grid_constant__ TransposeParams p, std::uint32_t* __restrict__ dst,
                    const std::uint32_t* __restrict__ src) {
  __shared__ std::uint32_t tile[64][65];
  const TransposeTile t = transpose_tile(p, 64);
  const int column = threadIdx.x % 16 * 4, row = threadIdx.x / 16;
  uint4 in[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int a = column, b = row + 16 * k;
    if (a < t.a && b < t.b) in[k] = __ldcs(reinterpret_cast<const uint4*>(src + t.src + a + b * p.src_b));
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    std::uint32_t* to = &tile[row + 16 * k][column];
    to[0] = in[k].x;
    to[1] = in[k].y;
    to[2] = in[k].z;
    to[3] = in[k].w;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int a = row + 16 * k, b = column;
    if (a < t.a && b < t.b) {
      const uint4 out = {tile[b][a], tile[b + 1][a], tile[b + 2][a], tile[b + 3][a]};
      __stwb(reinterpret_cast<uint4*>(dst + t.dst + b + a * p.dst_a), out);
    }
  }
}

// 16-bit elements: 128 x 128. A thread reads eight elements each of two neighbouring rows and stores them
// as eight pairs, so that shared memory is only ever accessed in 32-bit words, already turned.
static __global__ void __launch_bounds__(256)
    transpose_16bit(const __grid_constant__ TransposeParams p, std::uint16_t* __restrict__ dst,
                    const std::uint16_t* __restrict__ src) {
  __shared__ std::uint32_t tile[128][65];  // [a][b / 2]
  const TransposeTile t = transpose_tile(p, 128);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint4 even[4], odd[4];
#pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int group = warp + 8 * u;  // 2 halves of a row times 16 groups of 4 pairs of rows
    const int a = (group % 2 * 8 + lane % 8) * 8, b = (group / 2 * 4 + lane / 8) * 2;
    if (a < t.a && b < t.b) {
      const std::uint16_t* from = src + t.src + a + b * p.src_b;
      even[u] = __ldcs(reinterpret_cast<const uint4*>(from));
      odd[u] = __ldcs(reinterpret_cast<const uint4*>(from + p.src_b));
    }
  }
#pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int group = warp + 8 * u;
    const int a = (group % 2 * 8 + lane % 8) * 8;
    const int pair = group / 2 * 4 + lane / 8;
    const std::uint32_t e[4] = {even[u].x, even[u].y, even[u].z, even[u].w};
    const std::uint32_t o[4] = {odd[u].x, odd[u].y, odd[u].z, odd[u].w};
#pragma unroll
    for (int j = 0; j < 8; ++j)
      tile[a + j][pair] = __byte_perm(e[j / 2], o[j / 2], j % 2 == 0 ? 0x5410 : 0x7632);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int a = threadIdx.x / 16 + 16 * k, word = threadIdx.x % 16 * 4, b = 2 * word;
    if (a < t.a && b < t.b) {
      const std::uint32_t* from = &tile[a][word];
      const uint4 out = {from[0], from[1], from[2], from[3]};
      __stwb(reinterpret_cast<uint4*>(dst + t.dst + b + a * p.dst_a), out);
    }
  }
}

}  // namespace walk

/// Copies by tiles if the plan is a transpose that is worth it; false if it is not.
template <class Word>
bool transpose(const CopyPlan& plan, Word* dst, const Word* src) {
  const int axis = plan.transposed_axis(), inner = plan.inner();
  if (axis < 0 || plan.size[axis] < 8 || plan.size[inner] < 8) return false;
  walk::TransposeParams p;
  p.size_a = plan.size[axis];
  p.size_b = plan.size[inner];
  p.dst_a = plan.dst[axis];
  p.src_b = plan.src[inner];
  p.outer = 0;
  // Whether every access of 16 bytes is aligned and wholly inside or outside.
  constexpr std::int64_t kVector = 16 / static_cast<std::int64_t>(sizeof(Word));
  bool aligned = gpu::is_aligned(dst, 16) && gpu::is_aligned(src, 16) && p.size_a % kVector == 0 &&
                 p.size_b % kVector == 0 && p.dst_a % kVector == 0 && p.src_b % kVector == 0;
  std::int64_t matrices = 1;
  for (int i = 0; i < inner; ++i) {
    if (i == axis) continue;
    p.size[p.outer] = static_cast<unsigned>(plan.size[i]);
    p.dst[p.outer] = plan.dst[i];
    p.src[p.outer++] = plan.src[i];
    matrices *= plan.size[i];
    aligned = aligned && plan.dst[i] % kVector == 0 && plan.src[i] % kVector == 0;
  }
  const auto run = [&](auto kernel, int edge) {
    const std::int64_t tiles_a = gpu::ceil_div(p.size_a, edge), tiles_b = gpu::ceil_div(p.size_b, edge);
    const unsigned blocks = gpu::blocks_for("copy", tiles_a * tiles_b * matrices, 1);
    p.tiles_a = static_cast<unsigned>(tiles_a), p.tiles_b = static_cast<unsigned>(tiles_b);
    gpu::launch("copy", kernel, blocks, 256, 0, p, dst, src);
  };
  if constexpr (sizeof(Word) == 4) {
    if (aligned) return run(walk::transpose_32bit, 64), true;
  }
  if constexpr (sizeof(Word) == 2) {
    // Small matrices fill the smaller tiles better.
    if (aligned && p.size_a >= 64 && p.size_b >= 64) return run(walk::transpose_16bit, 128), true;
  }
  run(walk::transpose_plain<Word>, 32);
  return true;
}

}  // namespace ct
