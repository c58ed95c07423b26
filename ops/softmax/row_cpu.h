#pragma once

#include <cmath>
#include <limits>

#include <cotangent/core/simd/exp_nonpositive.h>
#include <cotangent/ops/engine/rows/rows_cpu.h>

// The softmax of one row on the CPU. For the kernels of softmax and masked_softmax.

namespace ct::softmax_impl {

using rows::kBlock, rows::kMax, rows::kPlus;

// softmax or log_softmax of the n elements of x, written to y (which may be x). What fills up the last, short vector is
// -inf, which adds nothing. For y of 16 bits there has to be `work`, of n numbers.
template <bool logarithm, class T>
void softmax_row(const T* x, T* y, std::int64_t n, float* work = nullptr) {
  using V = simd::FixedVector<float>;
  constexpr int w = V::kSize;
  constexpr float minus_inf = -std::numeric_limits<float>::infinity();
  if constexpr (std::is_same_v<T, float>) work = y;
  V a, b, left[2] = {minus_inf, minus_inf};  // what pairs leave of the row
  V highest(minus_inf), other(minus_inf);
  const std::int64_t pairs = simd::for_pairs<V>(0, n, [&](std::int64_t k) {
    V::load_pair(x + k, a, b);
    highest = kMax(highest, a), other = kMax(other, b);
  });
  const auto for_left = [&](const auto& body) {
    simd::for_rest<V>(pairs, n, [&](std::int64_t k, auto first) { body(k, first, left[k > pairs]); });
  };
  for_left([&](std::int64_t k, auto first, V& v) {
    v = V::load(x + k, first, minus_inf);
    highest = kMax(highest, v);
  });
  const float max = kMax(highest, other).across(kMax);

  double sum = 0;
  for (std::int64_t i = 0; i < pairs; i += kBlock) {
    V sums(0), others(0);
    simd::for_pairs<V>(i, std::min<std::int64_t>(pairs, i + kBlock), [&](std::int64_t k) {
      V::load_pair(x + k, a, b);
      a = simd::exp_nonpositive_for<T>(a - max), b = simd::exp_nonpositive_for<T>(b - max);
      if constexpr (!logarithm) a.store(work + k), b.store(work + k + w);
      sums += a, others += b;
    });
    sum += (sums + others).across(kPlus);
  }
  for_left([&](std::int64_t, auto, V& v) {
    const V e = simd::exp_nonpositive_for<T>(v - max);
    if constexpr (!logarithm) v = e;
    sum += e.across(kPlus);
  });

  // The two subtractions are kept apart: max may be far larger than the logarithm.
  const float by = static_cast<float>(logarithm ? std::log(sum) : 1 / sum);
  simd::for_pairs<V>(0, pairs, [&](std::int64_t k) {
    if constexpr (logarithm) {
      V::load_pair(x + k, a, b);
      V::store_pair(a - max - by, b - max - by, y + k);
    } else {
      V::store_pair(V::load(work + k) * by, V::load(work + k + w) * by, y + k);
    }
  });
  for_left([&](std::int64_t k, auto first, V v) { (logarithm ? v - max - by : v * by).store(y + k, first); });
}

}  // namespace ct::softmax_impl
