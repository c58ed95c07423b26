#pragma once

#include <cotangent/core/simd/vector.h>

// The first lanes of a vector, in the compute type of T. Lanes from `count` on are padding: they may hold anything and are
// dropped.

namespace ct::loss {

inline constexpr std::int64_t kRowGrain = 8192;  // elements of rows of classes that are worth a chunk

template <class T>
using Vector = simd::Vector<compute_t<T>>;

/// `count` elements in the compute type; the lanes after them are 0.
template <class T>
CT_INLINE Vector<T> load(const T* from, int count) {
  using V = Vector<T>;
  return count == V::kSize ? V::load(from) : V::load(from, V::first(count));
}
template <class T>
CT_INLINE void store(T* to, Vector<T> x, int count) {
  if (count == x.kSize)
    x.store(to);
  else
    x.store(to, x.first(count));
}

/// The sum of the first `count` lanes, in f64.
template <class C>
CT_INLINE double lane_sum(simd::Vector<C> p, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += p.v[i];
  return sum;
}

}  // namespace ct::loss
