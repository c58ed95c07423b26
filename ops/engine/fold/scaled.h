#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cotangent/core/base/export.h>

// Sums of powers that leave the range of their type on the way, though the result does not: carried relative to a scale.
// Written once for both devices.

namespace ct::fold {

// On a GPU one copy for each kernel: it is long, and most kernels call it where numbers leave the range only.
#if defined(__CUDACC__)
#define CT_ONE_COPY __noinline__
#else
#define CT_ONE_COPY
#endif
template <class C>
CT_HD CT_ONE_COPY C power_of(C x, C p) {
  if constexpr (sizeof(C) == sizeof(float))
    return ::powf(x, p);
  else
    return ::pow(x, p);
}
template <class C>
CT_HD inline bool is_finite(C x) {
  return x - x == 0;
}

// ---- sums of powers --------------------------------------------------------------------------------------

/// sum * scale^p, which is the sum of |x|^p. The scale is 1 unless the powers leave the range of C; then it is
/// the |x| that counts most: the largest for p > 0, the smallest for p < 0.
template <class C>
struct PowerSum {
  C sum = 0, scale = 1;
};

template <class C>
struct Powers {
  C p = 2;

  /// |x|^p for x >= 0.
  CT_HD C power(C x) const { return p == 2 ? x * x : p == 1 ? x : p == 0 ? C(x != 0) : power_of(x, p); }
  /// Whether sums of some hundred such powers are as exact as they should be, and a million times as large
  /// ones too.
  CT_HD static bool in_range(C sum) {
    return (sum > (sizeof(C) == 4 ? C(1e-30) : C(1e-200))) & (sum < (sizeof(C) == 4 ? C(1e30) : C(1e200)));
  }
  /// The sum for x[0] to x[n - 1], relative to the one that counts most.
  template <class X>
  CT_HD PowerSum<C> scaled(const X* x, int n) const {
    const C end = p > 0 ? C(0) : C(INFINITY);
    PowerSum<C> result{0, end};
    for (int i = 0; i < n; ++i) {
      const C size = static_cast<C>(x[i] < 0 ? -x[i] : x[i]);
      if (p > 0 ? size > result.scale : size < result.scale) result.scale = size;
    }
    // Nothing but zeros or infinities counts, or they are all that counts.
    if (!(result.scale > 0 && is_finite(result.scale))) result.scale = 1;
    for (int i = 0; i < n; ++i) result.sum += power(static_cast<C>(x[i] < 0 ? -x[i] : x[i]) / result.scale);
    return result;
  }
  CT_HD void merge(PowerSum<C>& a, const PowerSum<C>& b) const {
    if (a.scale == b.scale) {
      a.sum += b.sum;
    } else if (!is_finite(a.sum) || !is_finite(b.sum)) {
      a = {a.sum + b.sum, C(1)};
    } else if (a.sum == 0 || b.sum == 0) {
      if (a.sum == 0) a = b;
    } else if ((a.scale > b.scale) == (p > 0)) {
      a.sum += b.sum * power(b.scale / a.scale);
    } else {
      a = {b.sum + a.sum * power(a.scale / b.scale), b.scale};
    }
  }
  CT_HD C root(const PowerSum<C>& a) const {
    return p == 2 ? a.scale * ::sqrt(a.sum) : p == 1 || p == 0 ? a.sum : a.scale * power_of(a.sum, 1 / p);
  }
};

// ---- variances -------------------------------------------------------------------------------------------

/// n elements, their mean and the sum of their squared deviations from it.
template <class C>
struct Moments {
  C n = 0, mean = 0;
  PowerSum<C> squares = {};
};

/// Merging is the formula of Chan, Golub and LeVeque (1979): with d the difference of the means,
///     m2 = m2_a + m2_b + d^2 n_a n_b / n,   mean = mean_a + d n_b / n
/// With `root`, which may lie in the range of C where the squares do not, these are scaled.
template <class C>
struct Deviations {
  C correction = 1;
  bool root = false;

  /// The squares of n deviations, whose plain sum is `sum`.
  template <class X>
  CT_HD PowerSum<C> squares(C sum, const X* x, int n) const {
    return !root || Powers<C>::in_range(sum) ? PowerSum<C>{sum, C(1)} : Powers<C>{}.scaled(x, n);
  }
  CT_HD void merge(Moments<C>& a, const Moments<C>& b) const {
    if (b.n == 0) return;
    const C n = a.n + b.n, d = b.mean - a.mean, share = b.n / n, weight = a.n * share;
    Powers<C>{}.merge(a.squares, b.squares);
    if (weight > 0) {
      const C one[1] = {root ? d * static_cast<C>(::sqrt(weight)) : C(0)};
      Powers<C>{}.merge(a.squares, squares(d * d * weight, one, 1));
    }
    a.mean += d * share;
    a.n = n;
  }
  CT_HD C result(const Moments<C>& a) const {
    const C freedom = a.n > correction ? a.n - correction : C(0), scale = a.squares.scale;
    const C sum = a.squares.sum < 0 ? C(0) : a.squares.sum;
    return root ? scale * ::sqrt(sum / freedom) : sum / freedom;
  }
};

}  // namespace ct::fold
