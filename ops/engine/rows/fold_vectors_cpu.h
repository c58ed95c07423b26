#pragma once

#include <cotangent/ops/engine/rows/blocks_cpu.h>

// Contiguous elements are folded with four independent 64-byte vectors, the compiler's own vector type: their
// width is part of the result's definition, so it is the same on every machine. A block has at most 512
// elements, so a float lane sees eight additions before it is added to a double; that makes the error of a
// float sum that of its one rounding at the end, whatever the length.

namespace ct::rows {

/// combine(...) over map(x[i]) of vectors of C, which T is loaded as. `pad` is an element whose map leaves every combination as
/// it is.
template <class T, class C, class Map, class Combine>
inline C fold_vectors(const T* x, int n, C identity, Map map, Combine combine, C pad) {
  using V = simd::FixedVector<C>;
  constexpr int w = V::kSize;
  V a(identity);
  int i = 0;
  if (n >= 4 * w) {
    auto b = a, c = a, d = a;
    for (; i + 4 * w <= n; i += 4 * w) {
      a = combine(a, map(V::load(x + i)));
      b = combine(b, map(V::load(x + i + w)));
      c = combine(c, map(V::load(x + i + 2 * w)));
      d = combine(d, map(V::load(x + i + 3 * w)));
    }
    a = combine(combine(a, b), combine(c, d));
  }
  for (; i + w <= n; i += w) a = combine(a, map(V::load(x + i)));
  if (i < n) a = combine(a, map(V::load(x + i, V::first(n - i), pad)));
  return a.across(combine);
}
template <class T, class C, class Map, class Combine>
inline C fold_vectors(const T* x, int n, C identity, Map map, Combine combine) {
  return fold_vectors(x, n, identity, map, combine, identity);
}

inline constexpr auto kSame = [](const auto& x) { return x; };

}  // namespace ct::rows
