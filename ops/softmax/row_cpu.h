#pragma once

#include <cmath>
#include <limits>

#include <cotangent/core/simd/vector.h>
#include <cotangent/ops/engine/fold/fold_cpu.h>
#include <cotangent/ops/engine/fold/folds_cpu.h>

// The softmax of one row on the CPU. For the kernels of softmax and masked_softmax.

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are used inside functions only

namespace ct::softmax_kernels {

using fold::kBlock;
using fold::kPlus;

inline constexpr std::int64_t kGrain = 16384;  // elements per chunk

// Comparisons with NaN are false either way round, so the NaN itself is asked for: it must come through.
inline constexpr auto kMax = [](const auto& a, const auto& b) { return ((b > a) | (b != b)) ? b : a; };

// softmax or log_softmax of the n elements of x, written to y (which may be x). The last, short vector is
// filled up with -inf, which adds nothing.
template <bool logarithm, class C>
void softmax_row(const C* x, C* y, std::int64_t n) {
  using V = Vector<C>;
  using Lanes = typename V::type;
  constexpr int w = V::size;
  constexpr C minus_inf = -std::numeric_limits<C>::infinity();
  const std::int64_t whole = n / w * w;
  const int rest = static_cast<int>(n - whole);
  Lanes tail = rest > 0 ? V::load_first(x + whole, rest, minus_inf) : Lanes{} + minus_inf;

  Lanes highest = tail;
  for (std::int64_t i = 0; i < whole; i += kBlock) {
    const std::int64_t stop = std::min(whole, i + kBlock);
    Lanes other = highest;
    std::int64_t k = i;
    for (; k + 2 * w <= stop; k += 2 * w) {
      highest = kMax(highest, V::load(x + k));
      other = kMax(other, V::load(x + k + w));
    }
    if (k < stop) highest = kMax(highest, V::load(x + k));
    highest = kMax(highest, other);
  }
  const C max = V::across(highest, kMax);

  Lanes e_tail = exp_nonpositive<C>(tail - max);
  double sum = 0;
  for (std::int64_t i = 0; i < whole; i += kBlock) {
    const std::int64_t stop = std::min(whole, i + kBlock);
    Lanes block = {};
    for (std::int64_t k = i; k < stop; k += w) {
      const Lanes e = exp_nonpositive<C>(V::load(x + k) - max);
      if constexpr (!logarithm) V::store(y + k, e);
      block += e;
    }
    sum += V::across(block, kPlus);
  }
  sum += V::across(e_tail, kPlus);

  if constexpr (logarithm) {
    const C log_sum = static_cast<C>(std::log(sum));
    // The two subtractions are kept apart: max may be far larger than the logarithm.
    for (std::int64_t k = 0; k < whole; k += w) V::store(y + k, V::load(x + k) - max - log_sum);
    e_tail = tail - max - log_sum;
  } else {
    const C scale = static_cast<C>(1 / sum);
    for (std::int64_t k = 0; k < whole; k += w) V::store(y + k, V::load(y + k) * scale);
    e_tail *= scale;
  }
  if (rest > 0) V::store_first(y + whole, e_tail, rest);
}

}  // namespace ct::softmax_kernels

#pragma GCC diagnostic pop
