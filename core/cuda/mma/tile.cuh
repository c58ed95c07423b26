#pragma once

#include <cotangent/core/cuda/mma/ptx.cuh>

// Tiles in shared memory.

namespace ct::mma {

/// A tile of 16-bit rows of D elements in shared memory. The 16-byte chunks of a row are permuted by the
/// row's number (XOR), so that ldmatrix, which reads the same chunk of 8 rows, finds them in 8 different
/// bank groups.
template <int D>
struct Tile {
  static_assert(D % 32 == 0);
  static constexpr int row_bytes = 2 * D;
  // With whole groups of 8 chunks per row, rows start at the same bank: permute by 3 bits of the row number.
  // Otherwise (D = 32, 96) rows r and r + 1 start 4 bank groups apart and 2 bits of r / 2 do.
  static __device__ __forceinline__ std::uint32_t offset(int row, int chunk) {
    const int swizzled = D % 64 == 0 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3);
    return static_cast<std::uint32_t>(row * row_bytes + swizzled * 16);
  }

  /// Rows [0, valid_rows) of `from`, channels [0, 8 valid_chunks); the rest becomes zeros. All Threads
  /// threads of the block take part.
  template <int RowCount, int Threads>
  static __device__ __forceinline__ void load(std::uint32_t tile, const std::uint16_t* from,
                                              std::int64_t stride, int valid_rows, int valid_chunks) {
    constexpr int chunks = D / 8;
    constexpr int total = RowCount * chunks;
#pragma unroll
    for (int i = 0; i < (total + Threads - 1) / Threads; ++i) {
      const int n = static_cast<int>(threadIdx.x) + i * Threads;
      if (total % Threads != 0 && n >= total) break;
      const int row = n / chunks, chunk = n % chunks;
      const bool valid = row < valid_rows && chunk < valid_chunks;
      copy_async_16(tile + offset(row, chunk), valid ? from + row * stride + chunk * 8 : from, valid);
    }
  }

  // The addresses that the lanes of a warp give to ldmatrix for the 16x16 block at (row, 8 chunk).

  /// Address for an a operand; or, transposed, for a b operand whose k runs along the rows: matrices 0, 1
  /// are the two halves of k for the first 8 columns, 2, 3 for the next 8.
  static __device__ __forceinline__ std::uint32_t block(std::uint32_t tile, int row, int chunk) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    return tile + offset(row + (lane & 15), chunk + (lane >> 4));
  }
  /// Address for a b operand whose k runs along the columns: matrices 0, 1 are the two halves of k for the
  /// first 8 rows, 2, 3 for the next 8. Transposed: for an a operand stored with k along the rows.
  static __device__ __forceinline__ std::uint32_t block_columns(std::uint32_t tile, int row, int chunk) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    return tile + offset(row + (lane & 7) + ((lane >> 4) << 3), chunk + ((lane >> 3) & 1));
  }
};

}  // namespace ct::mma
