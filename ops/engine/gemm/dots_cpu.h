#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include <cotangent/core/simd/shuffle.h>

// Products as scalar products: C[i, j] = sum over p of A[i, p] * B[j, p], both contiguous along p. Vectors
// run along p, and the sums of their lanes are taken at the end. That costs about two cycles per element of
// C, so it pays where nothing has to be packed for it and C is small: a vector times a matrix, few output
// features.

namespace ct::gemm {

/// The largest tile of C: kTall x kShort sums fill one vector.
template <class T>
inline constexpr int kTall = simd::Vector<T>::kSize == 2   ? 2
                             : simd::Vector<T>::kSize == 4 ? 2
                                                           : 4;
template <class T>
inline constexpr int kShort = simd::Vector<T>::kSize / kTall<T>;

template <class T>
struct DotArgs {
  std::int64_t k;
  const T* a;  // element (i, p): a[i * a_stride + p]
  std::int64_t a_stride;
  const T* b;  // element (j, p): b[j * b_stride + p]
  std::int64_t b_stride;
  T* c;  // element (i, j): c[i * c_stride + j]
  std::int64_t c_stride;
  T alpha, beta;
  const T* bias;  // of the tile's columns, or null
};

/// C[i, j] = alpha * (row i of A) . (row j of B) + beta * C[i, j] + bias[j], i < Rows, j < Cols.
template <class T, int Rows, int Cols>
void dot_tile(const DotArgs<T>& t) {
  using V = simd::Vector<T>;
  constexpr int w = V::kSize;
  const std::int64_t k = t.k, a_stride = t.a_stride, b_stride = t.b_stride;
  const T* const a = t.a;
  const T* const b = t.b;
  // Enough independent sums to keep the multiply-add units busy: two sets when a tile has few.
  constexpr int sets = Rows * Cols <= 4 ? 2 : 1;
  V acc[sets][w];
#pragma GCC unroll 2
  for (int s = 0; s < sets; ++s)
#pragma GCC unroll 16
    for (int l = 0; l < w; ++l) acc[s][l] = V(T(0));
  const auto step = [&](V(&sum)[w], std::int64_t p, auto&& load) {
    V y[Cols];
#pragma GCC unroll 4
    for (int j = 0; j < Cols; ++j) {
      y[j] = load(b + j * b_stride + p);
      keep(y[j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      V x = load(a + i * a_stride + p);
      keep(x);
#pragma GCC unroll 4
      for (int j = 0; j < Cols; ++j) sum[i * kShort<T> + j] = fma(x, y[j], sum[i * kShort<T> + j]);
    }
  };
  const auto whole = [](const T* from) { return V::load(from); };
  std::int64_t p = 0;
  for (; p + sets * w <= k; p += sets * w) {
#pragma GCC unroll 2
    for (int s = 0; s < sets; ++s) step(acc[s], p + s * w, whole);
  }
  for (; p < k; p += w) {
    const auto mask = V::first(std::min<std::int64_t>(w, k - p));
    step(acc[0], p, [&](const T* from) { return V::load(from, mask); });
  }
  if constexpr (sets == 2) {
#pragma GCC unroll 16
    for (int l = 0; l < w; ++l) acc[0][l] = acc[0][l] + acc[1][l];
  }
  alignas(64) T sums[w];
  lane_sums(acc[0]).store(sums);
  T* const c = t.c;
  const std::int64_t c_stride = t.c_stride;
  const bool plain = t.alpha == 1 && t.beta == 0 && t.bias == nullptr;
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
    T* const row = sums + i * kShort<T>;
    if (!plain) {
      for (int j = 0; j < Cols; ++j) {
        row[j] *= t.alpha;
        if (t.beta != 0) row[j] += t.beta * c[i * c_stride + j];
        if (t.bias != nullptr) row[j] += t.bias[j];
      }
    }
    std::memcpy(c + i * c_stride, row, Cols * sizeof(T));
  }
}

template <class T>
using DotKernel = void (*)(const DotArgs<T>&);

template <class T, int Rows, std::size_t... J>
constexpr auto dot_row(std::index_sequence<J...>) {
  return std::array<DotKernel<T>, sizeof...(J)>{&dot_tile<T, Rows, static_cast<int>(J) + 1>...};
}

template <class T, std::size_t... I>
constexpr auto dot_table(std::index_sequence<I...>) {
  return std::array<std::array<DotKernel<T>, kShort<T>>, sizeof...(I)>{
      dot_row<T, static_cast<int>(I) + 1>(std::make_index_sequence<kShort<T>>{})...};
}

/// The kernel for a tile of rows x cols sums, 1 <= rows <= kTall, 1 <= cols <= kShort.
template <class T>
DotKernel<T> dot_kernel(std::int64_t rows, std::int64_t cols) {
  static constexpr auto table = dot_table<T>(std::make_index_sequence<kTall<T>>{});
  return table[static_cast<std::size_t>(rows - 1)][static_cast<std::size_t>(cols - 1)];
}
extern template DotKernel<float> dot_kernel<float>(std::int64_t, std::int64_t);  // made in gemm_cpu.cpp
extern template DotKernel<double> dot_kernel<double>(std::int64_t, std::int64_t);

}  // namespace ct::gemm
