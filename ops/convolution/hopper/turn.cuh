#pragma once

#include <cotangent/ops/convolution/flat_internal.h>
#include <cotangent/core/cuda/mma/hopper_tile.cuh>

// Images as they are in memory, brought into the order of a panel: a row for each position, in it 64 channels.

namespace ct::convolution {

/// Images [N, channels, height, width], of which `vector` pixels, 4 or 8, can be read at once.
struct Planes {
  const Word* data;
  int channels, height, width, vector;
  gpu::Divider row,
      eights;  // pixels of a row; vectors of eight pixels of a plane, of which the last may be short

  /// The vector with the first pixel at position m or after it, or if `end` the first behind all those before m.
  __device__ __forceinline__ int vector_at(const Flat& f, int m, bool end) const {
    const int n = static_cast<int>(f.image.divide(m)), rest = m - n * static_cast<int>(f.image.divisor);
    const int r = static_cast<int>(f.pitch.divide(rest)),
              column = rest - r * static_cast<int>(f.pitch.divisor);
    const int pixel = r < height ? r * width + min(column, width) : height * width;
    return n * static_cast<int>(eights.divisor) + (pixel + (end ? 7 : 0)) / 8;
  }
};

constexpr int kTurnDepth = 3, kTurnStage = 16 * 128;  // chunks on their way, bytes of a warp's chunk
constexpr int kTurnBytes = 4 * kTurnDepth * kTurnStage;
constexpr int kTurnBarrier = 5;  // the number of the turning warpgroup's

/// Positions first + known to first + count, channels from c0 on, into those rows of a panel; nothing for the gaps between
/// pixels. By one warpgroup, whose warps have 16 channels each: they copy 64 pixels at a time as they are, in vectors of
/// eight, and turn these in squares of eight channels on their way to the panel.
template <int kVector>
__device__ __forceinline__ void turn_pixels(std::uint32_t tile, std::uint32_t turning, const Flat& f,
                                            const Planes& x, int c0, int first, int known, int count) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4, lane = static_cast<int>(threadIdx.x) % 32;
  const int plane = x.height * x.width, gap = static_cast<int>(f.pitch.divisor) - x.width;
  const int begin = x.vector_at(f, max(first + known, 0), false) & ~1;  // a whole sector of memory
  const int last = x.vector_at(f, max(min(first + count, f.positions), 0), true),
            chunks = (last - begin + 7) / 8;
  turning += warp * kTurnDepth * kTurnStage;
  c0 += 16 * warp;
  const auto load = [&](int chunk) {
    if (chunk < chunks) {
      const int v = begin + chunk * 8 + lane % 8, n = static_cast<int>(x.eights.divide(v));
      const int p = (v - n * static_cast<int>(x.eights.divisor)) * 8;
      const Word* const from = x.data + (static_cast<long long>(n) * x.channels + c0) * plane + p;
      const std::uint32_t to = turning + chunk % kTurnDepth * kTurnStage;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int channel = lane / 8 + 4 * i;
#pragma unroll
        for (int e = 0; e < 8; e += kVector) {
          const bool there = v < last && c0 + channel < x.channels && p + e < plane;
          const Word* const pixels = there ? from + channel * plane + e : x.data;
          const std::uint32_t at = to + mma::panel_offset(channel, lane % 8) + 2 * e;
          kVector == 8 ? mma::copy_async_16(at, pixels, there) : mma::copy_async_8(at, pixels, there);
        }
      }
    }
    mma::copy_async_commit();
  };
#pragma unroll
  for (int i = 0; i < kTurnDepth - 1; ++i) load(i);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    load(chunk + kTurnDepth - 1);
    mma::copy_async_wait<kTurnDepth - 1>();
    __syncwarp();
    const std::uint32_t from = turning + chunk % kTurnDepth * kTurnStage;
    std::uint32_t words[2][2][4], to[2][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // a pixel for each lane
      const int v = begin + chunk * 8 + half * 4 + lane / 8, n = static_cast<int>(x.eights.divide(v));
      const int p = (v - n * static_cast<int>(x.eights.divisor)) * 8 + lane % 8;
      const int row =
          n * static_cast<int>(f.image.divisor) + p + static_cast<int>(x.row.divide(p)) * gap - first;
      const bool inside = row >= known && row < count && first + row < f.positions && p < plane;
#pragma unroll
      for (int square = 0; square < 2; ++square) {
        mma::load_matrices_transposed(words[half][square],
                                      from + mma::panel_offset(8 * square + lane % 8, 4 * half + lane / 8));
        to[half][square] = inside ? tile + mma::panel_offset(row, 2 * warp + square) : from + lane * 16;
      }
    }
    __syncwarp();  // lanes without a pixel write where a chunk was that all have read
#pragma unroll
    for (int i = 0; i < 4; ++i) mma::store_matrices(to[i / 2][i % 2], words[i / 2][i % 2]);
    __syncwarp();
  }
}

/// Positions [first, first + count), channels from c0 on, into the rows of a panel, with zeros in the gaps. The first
/// `known` rows are those at `before`, where this warpgroup put them.
__device__ __forceinline__ void turn_rows(std::uint32_t tile, std::uint32_t before, int known,
                                          std::uint32_t turning, const Flat& f, const Planes& x, int c0,
                                          int first, int count) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  if (known > 0) {
    mma::named_barrier_sync(kTurnBarrier, 128);
    for (int i = thread; i < known * 8; i += 128)
      mma::store_shared_16(tile + 16 * i, mma::load_shared_16(before + 16 * i));
  }
  for (int row = known + thread; row < count; row += 128) {
    const int m = first + row;
    std::uint32_t n = 0;
    if (m >= 0 && m < f.positions && f.pixel(static_cast<std::uint32_t>(m), x.height, x.width, n) >= 0)
      continue;
#pragma unroll
    for (int i = 0; i < 8; ++i) mma::store_shared_16(tile + mma::panel_offset(row, i), {0, 0, 0, 0});
  }
  if (x.vector == 8)
    turn_pixels<8>(tile, turning, f, x, c0, first, known, count);
  else
    turn_pixels<4>(tile, turning, f, x, c0, first, known, count);
}

}  // namespace ct::convolution
