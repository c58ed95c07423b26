#pragma once

#if defined(__AVX512BW__) && defined(__AVX512VL__)

#include <cstdint>
#include <cstring>
#include <string_view>

#include <cotangent/core/device/cpu_level.h>
#include <cotangent/ops/engine/gemm/elements_cpu.h>

// Products of bf16 with the instruction for them, vdpbf16ps: two multiply-adds for each lane of a vector of sums. Packed are
// pairs of elements that follow each other along k, in the place of one float; all else is as for float.
//
// The instruction adds the product of the upper halves first, so the first element of a pair lies there: a sum is then the
// same chain of multiply-adds, p = 0, 1, ..., as without pairs, and has the same bits, as long as no element, product or sum
// is a denormal, which count as 0.

namespace ct::gemm {

/// Whether products of bf16 are done in pairs here.
inline bool pairs_run() {
#if defined(__AVX512BF16__) && !defined(__AMX_BF16__)
  return true;  // compiled for this processor alone, and not for one of Intel's, where it is slower than f32
#else
  return std::string_view(cpu_level()).substr(0, 3) == "v4-";
#endif
}

// Pairs that lie as such in memory, as a vector of them.
CT_INLINE simd::Vector<float> pair_words(const BFloat16* from, simd::Vector<float>::First first) {
  using V = simd::Vector<float>;
  using Words = simd::detail::Raw<std::uint32_t, simd::kVectorBytes>;
  const Words x = (Words)_mm512_maskz_loadu_epi32(first.mask, from);
  return V((V::Raw)(x << 16 | x >> 16));
}

// Element (p, j) is from[p * along + j * across]. In slivers of `width` columns, one after the other, pairs of rows: within
// one, out[p / 2 * width + j]. `last` fills the last of the `pairs`: 0 of one operand and -0 of the other, whose product adds
// nothing.
inline void pack_pairs(const BFloat16* from, std::int64_t along, std::int64_t across, std::int64_t k,
                       std::int64_t cols, BFloat16 last, std::int64_t pairs, float* out, std::int64_t width) {
  using V = simd::Vector<float>;
  using Words = simd::detail::Raw<std::uint32_t, simd::kVectorBytes>;
  for (std::int64_t j0 = 0; j0 < cols; j0 += width, from += width * across, out += width * pairs) {
    const std::int64_t wide = std::min(width, cols - j0);
    std::int64_t p = 0;
    if (across == 1) {
      for (; p < k / 2; ++p)
        for (std::int64_t j = 0; j < wide; j += V::kSize) {
          const BFloat16* const at = from + 2 * p * along + j;
          const __mmask16 some = V::first(std::min<std::int64_t>(V::kSize, wide - j)).mask;
          const auto words = [some](const BFloat16* row) {
            return (Words)_mm512_maskz_cvtepu16_epi32(some, _mm256_maskz_loadu_epi16(some, row));
          };
          _mm512_mask_storeu_epi32(out + p * width + j, some, (__m512i)(words(at) << 16 | words(at + along)));
        }
    } else if (along == 1) {
      pack_transposed<float>(k / 2, wide, out, width, [&](std::int64_t j, std::int64_t p, auto first) {
        return pair_words(from + j * across + 2 * p, first);
      });
      p = k / 2;
    }
    for (; p < pairs; ++p)
      for (std::int64_t j = 0; j < wide; ++j) {
        const auto at = [&](std::int64_t q) { return q < k ? from[q * along + j * across] : last; };
        const BFloat16 pair[2] = {at(2 * p + 1), at(2 * p)};
        std::memcpy(out + p * width + j, pair, sizeof pair);
      }
  }
}

inline void pack_pairs_of_columns(const void* r, std::int64_t r_row, std::int64_t r_k, const RowTiles& tiles,
                                  std::int64_t k, float, float* out, std::int64_t tile_size) {
  // Tiles of neighbours share cache lines: these are read by all before many others come.
  const std::int64_t deep = r_row == 1 ? 32 : k;
  for (std::int64_t p = 0; p < k; p += deep)
    for (std::int64_t t = 0; t < tiles.count; ++t)
      pack_pairs(static_cast<const BFloat16*>(r) + tiles.begin(t) * r_row + p * r_k, r_k, r_row,
                 std::min(deep, k - p), tiles.height(t), BFloat16(0.0f), (std::min(deep, k - p) + 1) / 2,
                 out + t * tile_size + p / 2 * kRows, kRows);
}

template <int deep>
void pack_pairs_of_vectors(const void* v, std::int64_t v_k, std::int64_t v_col, std::int64_t k,
                           std::int64_t cols, float* out) {
  pack_pairs(static_cast<const BFloat16*>(v), v_k, v_col, k, cols, BFloat16(-0.0f),
             Packing{1, deep}.packed(k), out, 2 * simd::Vector<float>::kSize);
}

/// tile_kernel for pairs, by columns.
inline TileKernel<float> pairs_kernel(std::int64_t rows, int vecs, bool, bool prefetch) {
  using Counts = std::make_index_sequence<kRows>;
  static constexpr std::array<TileKernel<float>, kRows> table[2] = {
      tile_row<float, 1, false, true>(Counts{}), tile_row<float, 2, false, true>(Counts{})};
  static constexpr TileKernel<float> large[2] = {&tile<float, kRows - 1, 2, false, true, true>,
                                                 &tile<float, kRows, 2, false, true, true>};
  if (prefetch && vecs == 2 && rows >= kRows - 1) return large[rows - (kRows - 1)];
  return table[vecs - 1][static_cast<std::size_t>(rows - 1)];
}

template <class Out>
inline constexpr Elements<float> kPairs{sizeof(BFloat16),
                                        sizeof(Out),
                                        true,
                                        !std::is_same_v<Out, float>,
                                        Packing{1, 1, kRows},
                                        nullptr,
                                        pack_pairs_of_columns,
                                        pack_pairs_of_vectors<1>,
                                        begin_sums<BFloat16, float, Out>,
                                        end_sums<float, Out>,
                                        pairs_kernel};

}  // namespace ct::gemm

#endif
