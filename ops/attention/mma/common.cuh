#pragma once

#include <cotangent/core/cuda/math.h>
#include <cotangent/ops/attention/mma/params.h>
#include <cotangent/core/cuda/mma/tile.cuh>

// Shared by the forward and backward kernels: masks, dropout, which keys are seen.

namespace ct::attention::mma {

using namespace ct::mma;  // the instructions and tiles of the engine
using gpu::exp2_flushed, gpu::kLn2, gpu::kLog2E;

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

/// Variants of a kernel beside causality: nothing, dropout alone, or dropout and a mask, either of which may be
/// missing.
enum class Extras : int { none, dropout, all };
/// Dropout alone has kernels of its own for the usual head dimensions.
template <int D>
inline constexpr bool kDropoutAlone = D == 64 || D == 128;

inline Extras extras(const Problem& p) {
  if (p.mask.kind != MaskKind::none) return Extras::all;
  return p.dropout.active ? Extras::dropout : Extras::none;
}

/// Where a mask hides a score, the score becomes -inf, whatever it was (a NaN too).
__device__ __forceinline__ float masked(float score, float term) {
  return term == -INFINITY ? term : score + term;
}

/// The largest score of a query in units of log2, rounded as forward and backward both have it: what a multiply-add takes from a
/// score is then the same number in both, and whatever the rounding adds to the exponents of a row drops out.
__device__ __forceinline__ float log2_base(float largest) { return __fmul_rn(largest, kLog2E); }

/// Calls add(c, e, term) for the 4 Columns scores of a thread, tile c and element e: what the mask adds to
/// that score. Its query is i0 + i_of(c, e), its key j0 + j_of(c, e). Positions past the
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
      return visit([&](std::int64_t at) { return static_cast<const float*>(mask.data)[at]; });
    case MaskKind::same:
      return visit(
          [&](std::int64_t at) { return unpack<T>(static_cast<const std::uint16_t*>(mask.data)[at]).x; });
    default: return;
  }
}

/// Bit e: whether element 4 block + e of `draw`, which is dropout.draw.now(), is kept.
__device__ __forceinline__ std::uint32_t kept_bits(const Dropout& dropout, const GeneratorState& draw,
                                                   std::uint64_t block) {
  const PhiloxBlock words = philox_block(draw, block);
  std::uint32_t bits = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) bits |= (words.word[e] > dropout.last ? 1u : 0u) << e;
  return bits;
}
__device__ __forceinline__ bool kept(const Dropout& dropout, const GeneratorState& draw,
                                     std::uint64_t element) {
  return philox_word(draw, element) > dropout.last;
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
