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

// One step of a transposition in registers: swaps the off-diagonal S x S blocks of every 2S x 2S block.
template <int S, class V, std::size_t... L>
inline void exchange(V& x, V& y, std::index_sequence<L...>) {
  constexpr int w = static_cast<int>(sizeof...(L));
  const V a = x, b = y;
  x = __builtin_shufflevector(
      a, b, ((static_cast<int>(L) & S) == 0 ? static_cast<int>(L) : w + static_cast<int>(L) - S)...);
  y = __builtin_shufflevector(
      a, b, ((static_cast<int>(L) & S) == 0 ? static_cast<int>(L) + S : w + static_cast<int>(L))...);
}

template <int S, class V, std::size_t W>
[[gnu::always_inline]] inline void transpose_from(V (&rows)[W]) {
  if constexpr (S < static_cast<int>(W)) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < W; ++i)
      if ((i & S) == 0) exchange<S>(rows[i], rows[i + S], std::make_index_sequence<W>{});
    transpose_from<2 * S>(rows);
  }
}

/// Transposes a square block held in registers, in log2(W) steps.
template <class V, std::size_t W>
[[gnu::always_inline]] inline void transpose(V (&rows)[W]) {
  transpose_from<1>(rows);
}

}  // namespace ct::gemm
