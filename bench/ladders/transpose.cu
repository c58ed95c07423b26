#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/copy/copy.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/view/view.h>

#include "bench/ladders/ladder.h"

// y[j, i] = x[i, j]: a copy of which one side goes against the grain. Row i of x becomes column i of y, so whichever
// order the threads take, either reads or writes are a column apart, unless the turn is made in shared memory.

namespace ct::ladder::transpose {
namespace {

// Reads along rows: thread (i, j) copies one element and neighbouring lanes read neighbours. Their writes are a column of
// y apart: each store of a warp touches 32 lines, and a line of which 4 bytes are written is carried to the second-level
// cache in sectors of 32 bytes. The neighbours of those bytes come with other blocks; whether they come while the line
// still lies there decides the time.
__global__ void read_rows(const float* x, float* y, int rows, int columns) {
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i < rows && j < columns) y[static_cast<long>(j) * rows + i] = x[static_cast<long>(i) * columns + j];
}

// Writes along rows: the same with the sides exchanged. Now the reads are a column apart, and reads, which a thread
// must wait for, are kept by the first-level cache as well: the 32 bytes of a sector serve the seven warps beside. This is
// mostly the better one of two bad orders.
__global__ void write_rows(const float* x, float* y, int rows, int columns) {
  const int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
  if (i < rows && j < columns) y[static_cast<long>(j) * rows + i] = x[static_cast<long>(i) * columns + j];
}

// Tiles: a block reads a tile of 32 x 32 along x's rows, leaves it in shared memory and writes it along y's rows. Both
// sides are coalesced, and the turn is made where single words may be reached. But a column of a tile whose rows have 32
// words lies in one bank of 32: the lanes that read it are served one after the other.
// Padded: with a row of 33 words, column elements lie in banks 0, 1, 2, ... and both directions are free of conflicts. One
// unused word a row is all that it takes.
template <int kPad>
__global__ void tiles(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][32 + kPad];
  const int left = blockIdx.x * 32, top = blockIdx.y * 32;
  for (int r = threadIdx.y; r < 32; r += 8)
    if (top + r < rows && left + threadIdx.x < columns)
      tile[r][threadIdx.x] = x[static_cast<long>(top + r) * columns + left + threadIdx.x];
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 8)
    if (left + r < columns && top + threadIdx.x < rows)
      y[static_cast<long>(left + r) * rows + top + threadIdx.x] = tile[threadIdx.x][r];
}

// Vectors: tiles of 64 x 64, read and written 16 bytes at a time: a warp's access is two rows of 256 bytes instead of one
// of 128, and a thread has four reads on their way. Within shared memory the words move one by one; a row has 65, so that
// the four words of a vector, written down a row, and four rows, read across, meet at most two to a bank. Both sizes
// must be multiples of 4 (else rows do not begin at a multiple of 16 bytes), which is where the general kernel
// and this one part.
// Along y: the same, in another order. Blocks that run side by side read pieces of 256 bytes of different rows, or write
// such pieces: one side has its neighbours elsewhere. Reads do not mind, but memory likes writes that fill a page of
// it one after the other, so neighbours in the grid are neighbours in y. And their stores are plain ones: a line that is
// marked as not used again (__stcs) leaves the cache at once, where another would wait for its neighbours.
template <bool kAlongY>
__global__ void __launch_bounds__(256) vectors(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[64][65];
  const int left = (kAlongY ? blockIdx.y : blockIdx.x) * 64, top = (kAlongY ? blockIdx.x : blockIdx.y) * 64;
  const int c = threadIdx.x % 16 * 4, r = threadIdx.x / 16;
  float4 v[4];
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (top + r + 16 * k < rows && left + c < columns)
      v[k] = __ldcs(
          reinterpret_cast<const float4*>(x + static_cast<long>(top + r + 16 * k) * columns + left + c));
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float* to = &tile[r + 16 * k][c];
    to[0] = v[k].x, to[1] = v[k].y, to[2] = v[k].z, to[3] = v[k].w;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (left + r + 16 * k < columns && top + c < rows) {
      float4* const to = reinterpret_cast<float4*>(y + static_cast<long>(left + r + 16 * k) * rows + top + c);
      const float4 out = {tile[c][r + 16 * k], tile[c + 1][r + 16 * k], tile[c + 2][r + 16 * k],
                          tile[c + 3][r + 16 * k]};
      if (kAlongY)
        *to = out;
      else
        __stcs(to, out);
    }
}

// ---- the ladder ----

// With `along_y` the grid's x goes along the rows of x, which are columns of y.
template <class Kernel>
void launch(const Call& c, Kernel kernel, dim3 tile, dim3 block, bool along_y = false) {
  const int rows = static_cast<int>(c.size(0)), columns = static_cast<int>(c.size(1));
  const unsigned across = (columns + tile.x - 1) / tile.x, down = (rows + tile.y - 1) / tile.y;
  ct::gpu::launch("ladder", kernel, along_y ? dim3(down, across) : dim3(across, down), block, 0,
                  c.input<float>(0), c.output<float>(0), rows, columns);
}

Tensors transposed(const Tensors& in) { return {in[0].t().contiguous()}; }

const bool kAdded = ct::ladder::add({
    .name = "transpose",
    .what = "y = x^T, rows x columns",
    .device = ct::DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{ct::f32, {100, 268}}, {ct::f32, {4, 4}}},
    .timed = {{ct::f32, {8192, 12'288}}},
    .work =
        [](const Case& c) { return 8.0 * static_cast<double>(c.size[0]) * static_cast<double>(c.size[1]); },
    .inputs = [](const Case& c) -> Tensors {
      return {ct::randn({c.size[0], c.size[1]})};
    },
    .plain = transposed,
    .library = transposed,
    .library_name = "x.t().contiguous()",
    .rungs = {{"read-rows", "reads are coalesced, writes a column apart",
               [](const Call& c) { launch(c, read_rows, dim3(32, 8), dim3(32, 8)); }},
              {"write-rows", "writes are coalesced, reads a column apart and kept by a cache",
               [](const Call& c) { launch(c, write_rows, dim3(8, 32), dim3(32, 8), true); }},
              {"tiles", "the turn is made in shared memory",
               [](const Call& c) { launch(c, tiles<0>, dim3(32, 32), dim3(32, 8)); }},
              {"padded-tiles", "a column of a tile lies in 32 banks",
               [](const Call& c) { launch(c, tiles<1>, dim3(32, 32), dim3(32, 8)); }},
              {"vectors", "16 bytes by one instruction, four on their way",
               [](const Call& c) { launch(c, vectors<false>, dim3(64, 64), dim3(256)); }},
              {"along-y", "neighbouring blocks write neighbouring pieces, which a cache may gather",
               [](const Call& c) { launch(c, vectors<true>, dim3(64, 64), dim3(256), true); }}},
});

}  // namespace
}  // namespace ct::ladder::transpose
