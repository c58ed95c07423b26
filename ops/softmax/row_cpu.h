#pragma once

#include <cmath>
#include <limits>

#include <cotangent/core/simd/exp.h>
#include <cotangent/ops/engine/fold/fold_cpu.h>
#include <cotangent/ops/engine/fold/folds_cpu.h>

// The softmax of one row on the CPU. For the kernels of softmax and masked_softmax.

namespace ct::softmax_kernels {

using fold::kBlock;
using fold::kPlus;
using simd::where;

inline constexpr std::int64_t kGrain = 16384;  // elements per chunk

// The larger one, in one instruction. It may pass over a NaN, which then is met in the sum.
inline constexpr auto kMax = [](const auto& a, const auto& b) { return where(b > a, b, a); };

// A row is gone through in pairs of vectors, as far as they go, and then in at most two more, the last one short. Here is what
// is left from element k on.
inline constexpr std::int64_t kPair = 2 * simd::FixedVector<float>::kSize;
CT_INLINE auto lanes_left(std::int64_t k, std::int64_t n) {
  using V = simd::FixedVector<float>;
  return V::first(std::min<std::int64_t>(V::kSize, n - k));
}

// softmax or log_softmax of the n elements of x, written to y (which may be x). What fills up the last, short vector is
// -inf, which adds nothing. For y of 16 bits there has to be `work`, of n numbers.
template <bool logarithm, class T>
void softmax_row(const T* x, T* y, std::int64_t n, float* work = nullptr) {
  using V = simd::FixedVector<float>;
  constexpr int w = V::kSize;
  constexpr float minus_inf = -std::numeric_limits<float>::infinity();
  if constexpr (std::is_same_v<T, float>) work = y;
  const std::int64_t pairs = n / kPair * kPair;
  V a, b, left[2] = {minus_inf, minus_inf};
  const auto for_left = [&](const auto& body) {
    if (pairs < n) body(pairs, left[0]);
    if (pairs + w < n) body(pairs + w, left[1]);
  };
  for_left([&](std::int64_t k, V& v) { v = V::load(x + k, lanes_left(k, n), minus_inf); });

  V highest = left[0], other = left[1];
  for (std::int64_t k = 0; k < pairs; k += kPair) {
    V::load_pair(x + k, a, b);
    highest = kMax(highest, a);
    other = kMax(other, b);
  }
  const float max = kMax(highest, other).across(kMax);

  double sum = 0;
  for (std::int64_t i = 0; i < pairs; i += kBlock) {
    const std::int64_t stop = std::min<std::int64_t>(pairs, i + kBlock);
    V sums(0), others(0);
    for (std::int64_t k = i; k < stop; k += kPair) {
      V::load_pair(x + k, a, b);
      a = simd::exp_nonpositive_for<T>(a - max), b = simd::exp_nonpositive_for<T>(b - max);
      if constexpr (!logarithm) a.store(work + k), b.store(work + k + w);
      sums += a, others += b;
    }
    sum += (sums + others).across(kPlus);
  }
  for_left([&](std::int64_t, V& v) {
    const V e = simd::exp_nonpositive_for<T>(v - max);
    if constexpr (!logarithm) v = e;
    sum += e.across(kPlus);
  });

  // The two subtractions are kept apart: max may be far larger than the logarithm.
  const float by = static_cast<float>(logarithm ? std::log(sum) : 1 / sum);
  for (std::int64_t k = 0; k < pairs; k += kPair) {
    if constexpr (logarithm) {
      V::load_pair(x + k, a, b);
      V::store_pair(a - max - by, b - max - by, y + k);
    } else {
      V::store_pair(V::load(work + k) * by, V::load(work + k + w) * by, y + k);
    }
  }
  for_left([&](std::int64_t k, const V& v) {
    (logarithm ? v - max - by : v * by).store(y + k, lanes_left(k, n));
  });
}

}  // namespace ct::softmax_kernels
