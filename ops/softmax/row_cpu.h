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
using simd::exp_nonpositive;
using simd::where;

inline constexpr std::int64_t kGrain = 16384;  // elements per chunk

// Comparisons with NaN are false either way round, so the NaN itself is asked for: it must come through.
inline constexpr auto kMax = [](const auto& a, const auto& b) { return where((b > a) | (b != b), b, a); };

// softmax or log_softmax of the n elements of x, written to y (which may be x). The last, short vector is
// filled up with -inf, which adds nothing.
template <bool logarithm, class C>
void softmax_row(const C* x, C* y, std::int64_t n) {
  using V = simd::FixedVector<C>;
  constexpr int w = V::kSize;
  constexpr C minus_inf = -std::numeric_limits<C>::infinity();
  const std::int64_t whole = n / w * w;
  const int rest = static_cast<int>(n - whole);
  const V tail = rest > 0 ? V::load(x + whole, V::first(rest), minus_inf) : V(minus_inf);

  V highest = tail;
  for (std::int64_t i = 0; i < whole; i += kBlock) {
    const std::int64_t stop = std::min(whole, i + kBlock);
    V other = highest;
    std::int64_t k = i;
    for (; k + 2 * w <= stop; k += 2 * w) {
      highest = kMax(highest, V::load(x + k));
      other = kMax(other, V::load(x + k + w));
    }
    if (k < stop) highest = kMax(highest, V::load(x + k));
    highest = kMax(highest, other);
  }
  const C max = highest.across(kMax);

  V e_tail = exp_nonpositive(tail - max);
  double sum = 0;
  for (std::int64_t i = 0; i < whole; i += kBlock) {
    const std::int64_t stop = std::min(whole, i + kBlock);
    V block(C(0));
    for (std::int64_t k = i; k < stop; k += w) {
      const V e = exp_nonpositive(V::load(x + k) - max);
      if constexpr (!logarithm) e.store(y + k);
      block += e;
    }
    sum += block.across(kPlus);
  }
  sum += e_tail.across(kPlus);

  if constexpr (logarithm) {
    const C log_sum = static_cast<C>(std::log(sum));
    // The two subtractions are kept apart: max may be far larger than the logarithm.
    for (std::int64_t k = 0; k < whole; k += w) (V::load(x + k) - max - log_sum).store(y + k);
    e_tail = tail - max - log_sum;
  } else {
    const C scale = static_cast<C>(1 / sum);
    for (std::int64_t k = 0; k < whole; k += w) (V::load(y + k) * scale).store(y + k);
    e_tail *= scale;
  }
  if (rest > 0) e_tail.store(y + whole, V::first(rest));
}

}  // namespace ct::softmax_kernels
