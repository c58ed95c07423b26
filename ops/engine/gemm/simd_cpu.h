#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

// The vectors that the products on the CPU are made of: one register of T, whole and partial loads and
// stores, and a multiply-add that rounds once where the machine can. Chosen when compiling; -march=native is
// the build's default.

namespace ct::gemm {

template <class T>
struct Simd;

#if defined(__AVX512F__)

template <>
struct Simd<float> {
  using V = __m512;
  using Mask = __mmask16;
  static constexpr int kWidth = 16, kRows = 12, kDots = 5;
  static Mask mask(std::int64_t n) { return static_cast<Mask>((1u << n) - 1u); }
  static V zero() { return _mm512_setzero_ps(); }
  static V splat(float x) { return _mm512_set1_ps(x); }
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
  static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void store(float* p, V v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
};

template <>
struct Simd<double> {
  using V = __m512d;
  using Mask = __mmask8;
  static constexpr int kWidth = 8, kRows = 12, kDots = 5;
  static Mask mask(std::int64_t n) { return static_cast<Mask>((1u << n) - 1u); }
  static V zero() { return _mm512_setzero_pd(); }
  static V splat(double x) { return _mm512_set1_pd(x); }
  static V load(const double* p) { return _mm512_loadu_pd(p); }
  static V load(const double* p, Mask m) { return _mm512_maskz_loadu_pd(m, p); }
  static void store(double* p, V v) { _mm512_storeu_pd(p, v); }
  static void store(double* p, V v, Mask m) { _mm512_mask_storeu_pd(p, m, v); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static V mul(V a, V b) { return _mm512_mul_pd(a, b); }
};

#elif defined(__AVX2__) && defined(__FMA__)

template <>
struct Simd<float> {
  using V = __m256;
  using Mask = __m256i;
  static constexpr int kWidth = 8, kRows = 6, kDots = 3;
  static Mask mask(std::int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static V zero() { return _mm256_setzero_ps(); }
  static V splat(float x) { return _mm256_set1_ps(x); }
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static V load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
  static void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static void store(float* p, V v, Mask m) { _mm256_maskstore_ps(p, m, v); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V mul(V a, V b) { return _mm256_mul_ps(a, b); }
};

template <>
struct Simd<double> {
  using V = __m256d;
  using Mask = __m256i;
  static constexpr int kWidth = 4, kRows = 6, kDots = 3;
  static Mask mask(std::int64_t n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static V zero() { return _mm256_setzero_pd(); }
  static V splat(double x) { return _mm256_set1_pd(x); }
  static V load(const double* p) { return _mm256_loadu_pd(p); }
  static V load(const double* p, Mask m) { return _mm256_maskload_pd(p, m); }
  static void store(double* p, V v) { _mm256_storeu_pd(p, v); }
  static void store(double* p, V v, Mask m) { _mm256_maskstore_pd(p, m, v); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static V mul(V a, V b) { return _mm256_mul_pd(a, b); }
};

#else

// 16 bytes: what every x86-64 and AArch64 machine has. The multiply-add may round twice here.
template <class T>
struct Simd {
  typedef T V __attribute__((vector_size(16)));
  using Mask = std::int64_t;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T)), kRows = 4, kDots = 3;
  static Mask mask(std::int64_t n) { return n; }
  static V zero() { return V{}; }
  static V splat(T x) { return V{} + x; }
  static V load(const T* p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static V load(const T* p, Mask n) {
    V v{};
    for (int i = 0; i < kWidth; ++i)
      if (i < n) v[i] = p[i];
    return v;
  }
  static void store(T* p, V v) { std::memcpy(p, &v, sizeof v); }
  static void store(T* p, V v, Mask n) {
    for (int i = 0; i < kWidth; ++i)
      if (i < n) p[i] = v[i];
  }
  static V fma(V a, V b, V c) { return a * b + c; }
  static V mul(V a, V b) { return a * b; }
};

#endif

// Shuffles of two vectors a and b, each seen as 16-byte blocks, in the forms that cost one instruction each.
// `Hi` chooses the second half of what there is to choose.

// Within every block: groups of G elements of the lower (upper) half of a's block and of b's, in turn.
template <int G, bool Hi, class V, std::size_t... L>
inline V interleave(const V& a, const V& b, std::index_sequence<L...>) {
  constexpr int w = static_cast<int>(sizeof...(L)), e = w / static_cast<int>(sizeof(V) / 16);
  return __builtin_shufflevector(
      a, b,
      (static_cast<int>(L) / e * e + static_cast<int>(L) % e / (2 * G) * G + static_cast<int>(L) % G +
       (Hi ? e / 2 : 0) + (static_cast<int>(L) % e / G % 2 == 0 ? 0 : w))...);
}

// The lower (upper) half of a, then that of b.
template <bool Hi, class V, std::size_t... L>
inline V halves(const V& a, const V& b, std::index_sequence<L...>) {
  constexpr int w = static_cast<int>(sizeof...(L));
  return __builtin_shufflevector(
      a, b, (static_cast<int>(L) % (w / 2) + (Hi ? w / 2 : 0) + (static_cast<int>(L) < w / 2 ? 0 : w))...);
}

// The even (odd) blocks of a, then those of b.
template <bool Hi, class V, std::size_t... L>
inline V alternate(const V& a, const V& b, std::index_sequence<L...>) {
  constexpr int w = static_cast<int>(sizeof...(L)), e = w / static_cast<int>(sizeof(V) / 16);
  return __builtin_shufflevector(a, b,
                                 (static_cast<int>(L) % (w / 2) / e * 2 * e + static_cast<int>(L) % e +
                                  (Hi ? e : 0) + (static_cast<int>(L) < w / 2 ? 0 : w))...);
}

/// Transposes a square block held in registers: first within 16 bytes, then those as wholes.
template <class V, std::size_t W>
[[gnu::always_inline]] inline void transpose(V (&rows)[W]) {
  constexpr std::size_t blocks = sizeof(V) / 16, e = W / blocks;
  constexpr auto lanes = std::make_index_sequence<W>{};
#pragma GCC unroll 16
  for (std::size_t g = 0; g < W; g += e) {
    const V a = rows[g], b = rows[g + 1];
    if constexpr (e == 2) {
      rows[g] = interleave<1, false>(a, b, lanes), rows[g + 1] = interleave<1, true>(a, b, lanes);
    } else {
      const V c = rows[g + 2], d = rows[g + 3];
      const V ab = interleave<1, false>(a, b, lanes), ab2 = interleave<1, true>(a, b, lanes);
      const V cd = interleave<1, false>(c, d, lanes), cd2 = interleave<1, true>(c, d, lanes);
      rows[g] = interleave<2, false>(ab, cd, lanes), rows[g + 1] = interleave<2, true>(ab, cd, lanes);
      rows[g + 2] = interleave<2, false>(ab2, cd2, lanes), rows[g + 3] = interleave<2, true>(ab2, cd2, lanes);
    }
  }
  if constexpr (blocks == 2) {
#pragma GCC unroll 16
    for (std::size_t c = 0; c < e; ++c) {
      const V x = rows[c], y = rows[e + c];
      rows[c] = halves<false>(x, y, lanes), rows[e + c] = halves<true>(x, y, lanes);
    }
  } else if constexpr (blocks == 4) {
#pragma GCC unroll 16
    for (std::size_t c = 0; c < e; ++c) {
      const V x01 = halves<false>(rows[c], rows[e + c], lanes),
              x23 = halves<true>(rows[c], rows[e + c], lanes);
      const V y01 = halves<false>(rows[2 * e + c], rows[3 * e + c], lanes);
      const V y23 = halves<true>(rows[2 * e + c], rows[3 * e + c], lanes);
      rows[c] = alternate<false>(x01, y01, lanes), rows[e + c] = alternate<true>(x01, y01, lanes);
      rows[2 * e + c] = alternate<false>(x23, y23, lanes), rows[3 * e + c] = alternate<true>(x23, y23, lanes);
    }
  }
}

/// Adds up the lanes of W vectors at once: lane l of the result is the sum of rows[l], in pairs.
template <class V, std::size_t W>
[[gnu::always_inline]] inline V lane_sums(V (&rows)[W]) {
  constexpr std::size_t blocks = sizeof(V) / 16, e = W / blocks;
  constexpr auto lanes = std::make_index_sequence<W>{};
#pragma GCC unroll 16
  for (std::size_t g = 0; g < W; g += 2)
    rows[g] =
        interleave<1, false>(rows[g], rows[g + 1], lanes) + interleave<1, true>(rows[g], rows[g + 1], lanes);
  if constexpr (e == 4) {
#pragma GCC unroll 16
    for (std::size_t g = 0; g < W; g += 4)
      rows[g] = interleave<2, false>(rows[g], rows[g + 2], lanes) +
                interleave<2, true>(rows[g], rows[g + 2], lanes);
  }
  if constexpr (blocks > 1) {
#pragma GCC unroll 16
    for (std::size_t g = 0; g < W; g += 2 * e)
      rows[g] = halves<false>(rows[g], rows[g + e], lanes) + halves<true>(rows[g], rows[g + e], lanes);
  }
  if constexpr (blocks > 2)
    rows[0] = alternate<false>(rows[0], rows[W / 2], lanes) + alternate<true>(rows[0], rows[W / 2], lanes);
  return rows[0];
}

/// Keeps a vector in a register. The compiler would rather load it again with every multiply-add, and loads
/// are what there are too many of.
template <class V>
[[gnu::always_inline]] inline void keep(V& x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__x86_64__)
  asm("" : "+x"(x));
#else
  (void)x;
#endif
}

}  // namespace ct::gemm
