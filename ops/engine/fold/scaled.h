#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cotangent/core/base/export.h>

// Products and sums of powers that leave the range of their type on the way, though what comes out of them
// does not: both are carried relative to a scale. Written once for both devices.

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
CT_HD inline float times_power_of_two(float x, int e) { return ::ldexpf(x, e); }
CT_HD inline double times_power_of_two(double x, int e) { return ::ldexp(x, e); }

template <class C>
CT_HD inline bool is_finite(C x) {
  return x - x == 0;
}

// ---- products --------------------------------------------------------------------------------------------

template <class To, class From>
CT_HD inline To same_bits(From from) {
#if defined(__CUDACC__)
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
#else
  return __builtin_bit_cast(To, from);
#endif
}

/// x = unit * 2^exponent with 1 <= |unit| < 2. For 0, an infinity or a NaN: x itself and 0.
template <class C>
CT_HD inline int split(C x, C& unit) {
  using Bits = std::conditional_t<sizeof(C) == 4, std::int32_t, std::int64_t>;
  constexpr int digits = sizeof(C) == 4 ? 23 : 52, bias = sizeof(C) == 4 ? 127 : 1023;
  constexpr Bits ones = 2 * bias + 1, fields = ones << digits;
  constexpr C least = sizeof(C) == 4 ? C(0x1p-126) : C(0x1p-1022), lift = static_cast<C>(Bits{2} << digits);
  const bool subnormal = ((x < 0 ? -x : x) < least) & (x != 0);
  const C normal = subnormal ? x * lift : x;
  const Bits bits = same_bits<Bits>(normal);
  const Bits field = bits >> digits & ones;
  const bool splits = (field != ones) & (field != 0);
  unit = same_bits<C>(splits ? (bits & ~fields) | (static_cast<Bits>(bias) << digits) : bits);
  return splits ? static_cast<int>(field) - bias - (subnormal ? digits + 1 : 0) : 0;
}

/// unit * 2^exponent is the product of the factors other than 0; the zeros are counted. The unit is infinite or
/// NaN only if a factor is.
template <class C>
struct Product {
  C unit = 1;
  std::int64_t exponent = 0;
  std::int64_t zeros = 0;

  CT_HD void normalize() { exponent += split(unit, unit); }
  CT_HD void merge(const Product& other) {
    unit *= other.unit;
    exponent += other.exponent;
    zeros += other.zeros;
    normalize();
  }
  /// Takes a factor in and leaves it to the caller to normalize() after at most 64 of them.
  CT_HD void take(C x) {
    C part;
    exponent += split(x, part);
    unit *= x == 0 ? C(1) : part;
    zeros += x == 0;
  }
  CT_HD C others() const {
    const std::int64_t limit = 10000;  // beyond any type's exponents
    const std::int64_t e = exponent < -limit ? -limit : exponent > limit ? limit : exponent;
    return times_power_of_two(unit, static_cast<int>(e));
  }
  // Times zero rather than zero: a NaN or an infinity among the factors must show.
  CT_HD C value() const { return zeros > 0 ? unit * 0 : others(); }
};

/// Saved values for the gradient of a product: y, the product of the factors other than 0, and in aux how many
/// zeros there are (2: or more), together with the exponent that y was divided by where it is far from 1.
template <class C>
struct OtherFactors {
  C y, aux;

  template <class P>
  CT_HD static OtherFactors of(Product<P> product) {
    product.normalize();
    constexpr std::int64_t near = sizeof(C) == 4 ? 60 : 500;  // within, g y / x stays in range
    constexpr std::int64_t limit = 1 << 20;                   // 4 times that is an integer in f32
    const C zeros = static_cast<C>(product.zeros > 2 ? 2 : product.zeros);
    std::int64_t e = product.exponent;
    if (-near <= e && e <= near) return {static_cast<C>(product.others()), zeros};
    e = e < -limit ? -limit : e > limit ? limit : e;
    return {static_cast<C>(product.unit), zeros + 4 * static_cast<C>(e)};
  }
  /// The gradient of the factor x.
  CT_HD C gradient(C g, C x) const {
    if (aux == 0) return g * y / x;
    using std::floor;
    const C exponent = floor(aux / 4), zeros = aux - 4 * exponent;
    if (zeros == 0) return scaled(g, x, exponent);
    if (zeros == 1 && x == 0) return scaled(g, C(1), exponent);
    return !is_finite(y) && is_finite(x) ? y - y : C(0);  // 0 times another factor
  }

 private:
  CT_HD C scaled(C g, C x, C exponent) const {
    C a, b;
    const int e = static_cast<int>(exponent) + split(g, a) - split(x, b);
    return times_power_of_two(a * y / b, e);
  }
};

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
