#pragma once

#include <cotangent/ops/attention/attention_mma_params_internal.h>
#include <cotangent/ops/attention/attention_mma_ptx_internal.cuh>

// Tiles in shared memory, and what the forward and backward kernels have in common.

namespace ct::attention::mma {

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

  /// As an a operand; or transposed as a b operand whose k runs along the rows: matrices 0, 1 are the two
  /// halves of k for the first 8 columns, 2, 3 for the next 8.
  static __device__ __forceinline__ std::uint32_t block(std::uint32_t tile, int row, int chunk) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    return tile + offset(row + (lane & 15), chunk + (lane >> 4));
  }
  /// As a b operand whose k runs along the columns: matrices 0, 1 are the two halves of k for the first 8
  /// rows, 2, 3 for the next 8. Transposed, as an a operand stored with k along the rows.
  static __device__ __forceinline__ std::uint32_t block_columns(std::uint32_t tile, int row, int chunk) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    return tile + offset(row + (lane & 7) + ((lane >> 4) << 3), chunk + ((lane >> 3) & 1));
  }
};

__device__ __forceinline__ const std::uint16_t* row_pointer(const Rows& rows, int batch, int head,
                                                            int position) {
  return static_cast<const std::uint16_t*>(rows.data) + batch * rows.batch + head * rows.head +
         position * rows.position;
}
__device__ __forceinline__ std::uint16_t* row_pointer_mutable(const Rows& rows, int batch, int head,
                                                              int position) {
  return static_cast<std::uint16_t*>(rows.data) + batch * rows.batch + head * rows.head +
         position * rows.position;
}

/// What a kernel is compiled for beside causality: nothing, dropout alone, or dropout and a mask.
enum class Extras : int { none, dropout, all };

inline Extras extras(const Problem& p) {
  if (p.mask.kind != MaskKind::none) return Extras::all;
  return p.dropout.active ? Extras::dropout : Extras::none;
}

/// Where a mask hides a score, the score becomes -inf, whatever it was (a NaN too).
__device__ __forceinline__ float masked(float score, float term) {
  return term == -INFINITY ? term : score + term;
}

/// Calls add(c, e, term) for the 4 Columns scores of a thread, tile c and element e: what the mask adds to
/// that score, in units of log2. Its query is i0 + i_of(c, e), its key j0 + j_of(c, e). Positions past the
/// end read the last row or column of the mask: the caller hides those scores.
template <class T, int Columns, class I, class J, class Add>
__device__ __forceinline__ void visit_mask(const Problem& p, int b, int h, int i0, int j0, const I& i_of,
                                           const J& j_of, const Add& add) {
  const Mask& mask = p.mask;
  const std::int64_t head = b * mask.batch + h * mask.head;
  const auto visit = [&](const auto& term) {
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = min(i0 + i_of(c, e), p.queries - 1), j = min(j0 + j_of(c, e), p.keys - 1);
        add(c, e, term(head + i * mask.query + j * mask.key));
      }
    }
  };
  switch (mask.kind) {
    case MaskKind::boolean:
      return visit(
          [&](std::int64_t at) { return static_cast<const bool*>(mask.data)[at] ? 0.0f : -INFINITY; });
    case MaskKind::f32:
      return visit([&](std::int64_t at) { return static_cast<const float*>(mask.data)[at] * kLog2E; });
    case MaskKind::same:
      return visit([&](std::int64_t at) {
        return unpack<T>(static_cast<const std::uint16_t*>(mask.data)[at]).x * kLog2E;
      });
    default: return;
  }
}

/// Bit e: whether element 4 block + e of the draw is kept.
__device__ __forceinline__ std::uint32_t kept_bits(const Dropout& dropout, std::uint64_t block) {
  const PhiloxBlock words = philox_block(dropout.draw, block);
  std::uint32_t bits = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) bits |= (words.word[e] > dropout.last ? 1u : 0u) << e;
  return bits;
}
__device__ __forceinline__ bool kept(const Dropout& dropout, std::uint64_t element) {
  return philox_word(dropout.draw, element) > dropout.last;
}

/// Key blocks [0, end) are seen by the queries [first, first + count), some of which may not exist.
template <int KeyBlock>
__device__ __forceinline__ int key_blocks_end(const Problem& p, int first, int count) {
  int end = p.keys;
  if (p.causal) {
    const std::int64_t last = std::int64_t{first} + count + p.causal_offset;
    end = static_cast<int>(last < 0 ? 0 : last < end ? last : end);
  }
  return (end + KeyBlock - 1) / KeyBlock;
}

}  // namespace ct::attention::mma
