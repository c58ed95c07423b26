#pragma once

#include <cotangent/ops/engine/gemm/pairs_cpu.h>

#if defined(__AVX512BW__) && defined(__AVX512VL__)

// Products of bf16 with AMX: tiles of 16 rows of 64 bytes, in registers of their own. One instruction multiplies 16 rows of
// 16 pairs (of R) with 16 pairs of rows of 16 columns (of V) and adds the result to 16 rows of 16 sums.
//
// It makes a sum of the upper halves' products and one of the lower halves', each as a chain, and adds both to what was
// there: so k is cut into groups of 32, and the bits are not those of other levels. Denormals count as 0.

namespace ct::gemm {

/// Whether this process may use it, and such a product gains by it.
inline bool amx_runs(const Gemm& g) {
  return std::min(g.m, g.n) >= 16 && g.k >= 32 && std::string_view(cpu_level()) == "v4-amx";
}

/// Rows of a tile of C, two registers' worth; packed, k is a whole number of kAmxPairs.
inline constexpr std::int64_t kAmxRows = 32, kAmxPairs = 16;

// The instructions, as asm for the reason that multiply_add() has.
struct Amx {
  // Operand of ldtilecfg: palette 1, and for each of eight registers 64 bytes a row and 16 rows.
  struct alignas(64) Shapes {
    std::uint8_t palette = 1, start = 0, none[14] = {};
    std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static void begin() {
    static constexpr Shapes shapes;
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }
  static void end() { asm volatile("tilerelease"); }
  template <int to>
  static CT_INLINE void load(const float* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,4), %%tmm%c2" ::"r"(from), "r"(stride), "i"(to) : "memory");
  }
  template <int from>
  static CT_INLINE void store(float* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,4)" ::"r"(to), "r"(stride), "i"(from) : "memory");
  }
  template <int sums, int r, int v>
  static CT_INLINE void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(r), "i"(v));
  }
};

// Up to 32 rows and 32 columns of C. R is packed in groups of kAmxPairs pairs, in each of them row by row.
inline void amx_tile(const TileArgs<float>& t) {
  using V = simd::Vector<float>;
  constexpr int w = V::kSize, wide = 2 * w;
  alignas(64) float sums[kAmxRows * wide];
  const auto columns = [&](int j) { return V::first(std::clamp<std::int64_t>(t.cols - j, 0, w)); };
  for (int j = 0; j < wide; j += w)
    for (std::int64_t i = 0; i < kAmxRows; ++i)
      (t.start != nullptr && i < t.rows ? V::load(t.start + i * t.start_stride + j, columns(j)) : V(0.0f))
          .store(sums + i * wide + j);
  Amx::begin();
  Amx::load<0>(sums, wide), Amx::load<1>(sums + w, wide);
  Amx::load<2>(sums + 16 * wide, wide), Amx::load<3>(sums + 16 * wide + w, wide);
  for (std::int64_t p = 0; p < t.k; p += kAmxPairs) {
    const float* const r = t.r + p * kAmxRows;
    const float* const v = t.v + p * t.v_stride;
    Amx::load<4>(r, kAmxPairs), Amx::load<6>(v, t.v_stride), Amx::load<7>(v + w, t.v_stride);
    Amx::multiply_add<0, 4, 6>(), Amx::multiply_add<1, 4, 7>();
    Amx::load<5>(r + 16 * kAmxPairs, kAmxPairs);
    Amx::multiply_add<2, 5, 6>(), Amx::multiply_add<3, 5, 7>();
  }
  Amx::store<0>(sums, wide), Amx::store<1>(sums + w, wide);
  Amx::store<2>(sums + 16 * wide, wide), Amx::store<3>(sums + 16 * wide + w, wide);
  Amx::end();
  for (int j = 0; j < wide; j += w)
    for (std::int64_t i = 0; i < t.rows; ++i)
      V::load(sums + i * wide + j).store(t.c + i * t.c_stride + j, columns(j));
}
inline TileKernel<float> amx_kernel(std::int64_t, int, bool, bool) { return amx_tile; }

// R in tiles of rows, and in each by groups of pairs: out[t * tile_size + (group * kAmxRows + i) * kAmxPairs + pair].
inline void pack_amx_rows(const void* r, std::int64_t r_row, std::int64_t r_k, const RowTiles& tiles,
                          std::int64_t k, float, float* out, std::int64_t tile_size) {
  using V = simd::Vector<float>;
  constexpr std::int64_t deep = 2 * kAmxPairs;
  for (std::int64_t t = 0; t < tiles.count; ++t)
    for (std::int64_t p = 0; p < k; p += deep) {
      const BFloat16* const from = static_cast<const BFloat16*>(r) + tiles.begin(t) * r_row + p * r_k;
      float* const to = out + t * tile_size + p / 2 * kAmxRows;
      if (r_k == 1 && p + deep <= k) {
        for (std::int64_t i = 0; i < tiles.height(t); ++i)
          pair_words(from + i * r_row, V::first(16)).store(to + i * kAmxPairs);
      } else {
        float turned[kAmxPairs * kAmxRows];
        pack_pairs(from, r_k, r_row, std::min(deep, k - p), tiles.height(t), BFloat16(0.0f), kAmxPairs,
                   turned, kAmxRows);
        pack_transposed<float>(turned, kAmxRows, tiles.height(t), kAmxPairs, to, kAmxPairs);
      }
    }
}

template <class Out>
inline constexpr Elements<float> kAmx = [] {
  Elements<float> elements = kPairs<Out>;
  elements.packing = {1, kAmxPairs, kAmxRows};
  elements.pack_columns = pack_amx_rows;
  elements.pack_vectors = pack_pairs_of_vectors<kAmxPairs>;
  elements.kernel = amx_kernel;
  return elements;
}();

}  // namespace ct::gemm

#endif
