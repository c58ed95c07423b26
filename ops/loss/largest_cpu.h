#pragma once

#include <cotangent/ops/engine/rows/rows_cpu.h>

namespace ct::loss {

/// The largest of n > 0 elements, in vectors V.
template <class V, class T>
CT_INLINE typename V::Scalar largest(const T* x, std::int64_t n) {
  V a, b, top(static_cast<typename V::Scalar>(x[0])), other = top;
  simd::for_pairs<V>(
      0, n,
      [&](std::int64_t k) {
        V::load_pair(x + k, a, b);
        top = rows::kMax(top, a), other = rows::kMax(other, b);
      },
      [&](std::int64_t k, auto first) { top = rows::kMax(top, V::load(x + k, first, top)); });
  top = rows::kMax(top, other);
  auto max = top.v[0];
  for (int i = 1; i < V::kSize; ++i) max = rows::kMax(max, top.v[i]);
  return max;
}

}  // namespace ct::loss
