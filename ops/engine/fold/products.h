#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cotangent/ops/engine/fold/scaled.h>

// Products that leave the range of their type on the way, though the result does not: carried as a number and an exponent.
// Written once for both devices.

namespace ct::fold {

CT_HD inline float times_power_of_two(float x, int e) { return ::ldexpf(x, e); }
CT_HD inline double times_power_of_two(double x, int e) { return ::ldexp(x, e); }

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

}  // namespace ct::fold
