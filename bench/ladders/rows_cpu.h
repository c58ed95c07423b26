#pragma once

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/vector.h>

#include <algorithm>
#include <vector>

#include "bench/ladders/ladder.h"

// Loops over rows on the CPU that several ladders have in common.

namespace ct::ladder {

using V = simd::Vector<float>;

/// Calls f(i, first) for each whole vector from element i on, with simd::All, and for a shorter last one, with V::First.
template <class F>
CT_INLINE void each_vector(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + V::kSize <= n; i += V::kSize) f(i, simd::All());
  if (i < n) f(i, V::first(n - i));
}
/// A vector, in which the lanes that are not loaded are those of `otherwise`.
CT_INLINE V load_or(const float* from, simd::All, V) { return V::load(from); }
CT_INLINE V load_or(const float* from, V::First first, V otherwise) {
  return V::load(from, first, otherwise);
}
CT_INLINE float total(V v) {
  return v.across([](V a, V b) { return a + b; });
}

/// Calls some(begin, end) for all of n rows, by one thread.
template <void (*some)(const Call&, std::int64_t, std::int64_t)>
void one_thread(const Call& c) {
  some(c, 0, c.size(0));
}
/// The same for chunks of rows, of some 64 KiB, by all threads.
template <void (*some)(const Call&, std::int64_t, std::int64_t)>
void all_threads(const Call& c) {
  parallel_for(c.size(0), 1 + (1 << 14) / c.size(1),
               [&](std::int64_t begin, std::int64_t end) { some(c, begin, end); });
}

}  // namespace ct::ladder
