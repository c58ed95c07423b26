#pragma once

#include <cmath>

#include <cotangent/ops/engine/map/math_cpu.h>

// Functions of vectors of f64 alone: what simulations and activations call in loops as polynomials on the whole register, all
// else lane by lane the C++ library's (f64 serves checking more than speed). Largest errors found, in units of the last place
// (engine/map/map_test.cpp repeats the search): log 0.9, log1p 1.1, expm1 1.0, tanh 0.8, erf 1.1, asin and acos 0.7, erfc 1.1.

namespace ct::simd {

// log(x + rest), where rest is what rounding took from x: x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). With
// s = f / (2 + f) it is k ln 2 + f - f^2/2 + s (f^2/2 + p(s^2)), whose terms fall; p interpolates 2 atanh(s) / s - 2.
CT_INLINE Vector<double> log_of(Vector<double> x, Vector<double> rest) {
  using P = Vector<double>;
  const auto denormal = x < P(0x1p-1022);  // scaled up by 2^54 (0 and negative numbers come along)
  const P scaled = where(denormal, x * P(0x1p54), x);
  const P::Bits shifted = scaled.bits_less(0x3fe6a09e667f3bcd);  // the bits of sqrt(1/2)
  const P f = P::from_bits((shifted & 0xfffffffffffff) + 0x3fe6a09e667f3bcd) - P(1);
  // With the bias no exponent is negative; in the low bits of 1.5 * 2^52 an integer is that integer more.
  const auto biased = (detail::Raw<std::uint64_t, kVectorBytes>)shifted + (std::uint64_t{1023} << 52);
  const P k = P::from_bits((P::Bits)(biased >> 52) + 0x4338000000000000) - P(0x1.8p52 + 1023) -
              where(denormal, P(54), P(0));
  const P s = f / (P(2) + f), z = s * s, half = P(0.5) * f * f;
  const P p =
      z * polynomial(z, 0x1.5555555555558p-1, 0x1.99999999952d7p-2, 0x1.2492492df281ap-2,
                     0x1.c71c62e3f11e6p-3, 0x1.7462b51cb66b1p-3, 0x1.39fe51a7c18f9p-3, 0x1.2b5900de53b32p-3);
  const P low = s * (half + p) + (k * P(0x1.a39ef35793c76p-33) + rest / where(x == P(0), P(1), x));
  const P y = k * P(0x1.62e42feep-1) - ((half - low) - f);
  const P special = where(x == P(0), P(-kInfinity), where(x < P(0), P(__builtin_nan("")), x));
  return where((x > P(0)) & (x < P(kInfinity)), y, special);
}
CT_INLINE Vector<double> log(Vector<double> x) { return log_of(x, Vector<double>(0)); }
CT_INLINE Vector<double> log1p(Vector<double> u) {
  const Vector<double> w = Vector<double>(1) + u;
  return where(u == 0, u, log_of(w, u - (w - Vector<double>(1))));  // -0
}

CT_INLINE Vector<double> sin(Vector<double> x) {
  return each(x, [](double v) { return std::sin(v); });
}
CT_INLINE Vector<double> cos(Vector<double> x) {
  return each(x, [](double v) { return std::cos(v); });
}

// ---- The C++ library's functions, called lane by lane -----------------------------------------------------------

// f of n numbers; a real call, since its code would be repeated for each formula that names a function.
[[gnu::noinline]] inline void call_each(double (*f)(double), double* x, int n) {
  for (int i = 0; i < n; ++i) x[i] = f(x[i]);
}
[[gnu::noinline]] inline void call_each(double (*f)(double, double), double* x, const double* y, int n) {
  for (int i = 0; i < n; ++i) x[i] = f(x[i], y[i]);
}
#define CT_CALLED_FUNCTION(name)                                                         \
  CT_INLINE Vector<double> name(Vector<double> x) {                                      \
    double lanes[Vector<double>::kSize];                                                 \
    x.store(lanes);                                                                      \
    call_each(static_cast<double (*)(double)>(std::name), lanes, Vector<double>::kSize); \
    return Vector<double>::load(lanes);                                                  \
  }
CT_CALLED_FUNCTION(exp2)
CT_CALLED_FUNCTION(log2)
CT_CALLED_FUNCTION(log10)
CT_CALLED_FUNCTION(tan)
CT_CALLED_FUNCTION(sinh)
CT_CALLED_FUNCTION(cosh)
CT_CALLED_FUNCTION(asinh)
CT_CALLED_FUNCTION(acosh)
CT_CALLED_FUNCTION(atanh)
#undef CT_CALLED_FUNCTION

#define CT_CALLED_FUNCTION(name)                                                                \
  CT_INLINE Vector<double> name(Vector<double> x, Vector<double> y) {                           \
    double a[Vector<double>::kSize], b[Vector<double>::kSize];                                  \
    x.store(a);                                                                                 \
    y.store(b);                                                                                 \
    call_each(static_cast<double (*)(double, double)>(std::name), a, b, Vector<double>::kSize); \
    return Vector<double>::load(a);                                                             \
  }
CT_CALLED_FUNCTION(fmod)
#undef CT_CALLED_FUNCTION

// ---- Exponentials ----------------------------------------------------------------------------------------------

// The upper half of the digits, whose products are exact.
CT_INLINE Vector<double> upper_half(Vector<double> x) {
  return Vector<double>::from_bits(x.bits() & ~std::int64_t{0x7ffffff});
}
// e^(x + x_rest) = 2^k (1 + e + e_rest), where x_rest is what rounding took from x, and e_rest what it takes from e. With
// x = k ln 2 + r the coefficients interpolate (e^r - 1 - r) / r^2; |x| < 2^10. k is in the low bits of `shifted`.
struct ScaledExpm1 {
  Vector<double> shifted, e, e_rest;
};
CT_INLINE ScaledExpm1 scaled_expm1(Vector<double> x, Vector<double> x_rest) {
  using P = Vector<double>;
  const P magic(0x1.8p52), shifted = x * P(0x1.71547652b82fep+0) + magic, k = shifted - magic;
  const P above = x - k * P(0x1.62e42feep-1), below = k * P(0x1.a39ef35793c76p-33) - x_rest;
  const P r = above - below, rest = (above - r) - below;
  const P w = r * r *
                  polynomial(r, 0.5, 0x1.5555555555555p-3, 0x1.5555555555557p-5, 0x1.1111111111111p-7,
                             0x1.6c16c16c15a68p-10, 0x1.a01a01a0196acp-13, 0x1.a01a01a9e991bp-16,
                             0x1.71de3a5aa7bb7p-19, 0x1.27e4d41966f2fp-22, 0x1.ae642c82e33d5p-26,
                             0x1.1f7f2776cfaf2p-29, 0x1.61bfaa228dde5p-33) +
              (rest + rest * r);
  const P e = r + w;
  return {shifted, e, (r - e) + w};
}
// (e^x - 1) / 2 = 2^(k-1) (e^r - 1) + (2^(k-1) - 1/2) as a sum whose second term is what rounding takes from the first; x in
// [-40, 710].
struct HalfExpm1 {
  Vector<double> high, low;
};
CT_INLINE HalfExpm1 half_expm1(Vector<double> x) {
  using P = Vector<double>;
  const ScaledExpm1 y = scaled_expm1(x, P(0));
  const P power = P::from_bits((y.shifted.bits() << 52) + (std::int64_t{1022} << 52));  // 2^(k-1)
  const P whole = power - P(0.5), part = power * y.e, sum = whole + part;
  return {sum, (part - (sum - whole)) + power * y.e_rest};
}
// (e^2a - 1) / (e^2a + 1) with a = |x|: the quotient's upper half, and what is left over the divisor. 1 from 22 on.
CT_INLINE Vector<double> tanh(Vector<double> x) {
  using P = Vector<double>;
  const P a = abs(x);
  const HalfExpm1 e = half_expm1(where(a > P(22), P(44), P(2) * a));
  const P d = e.high + P(1), back = d - e.high;
  const P d_rest = ((e.high - (d - back)) + (P(1) - back)) + e.low;
  const P q = upper_half(e.high / d), d_upper = upper_half(d);
  const P left = ((e.high - q * d_upper) - q * (d - d_upper)) + (e.low - q * d_rest);
  return copysign(q + left / d, x);
}
// elu and selu are activations: no call of the C++ library's.
CT_INLINE Vector<double> expm1(Vector<double> x) {
  using P = Vector<double>;
  const HalfExpm1 e = half_expm1(where(x > P(710), P(710), where(x < P(-40), P(-40), x)));
  return where(x == P(0), x, P(2) * (e.high + e.low));  // -0
}
// a * b, and what rounding takes from it; without an instruction for that by halves of 26 bits (Dekker), |a|, |b| < 2^990.
struct Product {
  Vector<double> value, rest;
};
CT_INLINE Product product(Vector<double> a, Vector<double> b) {
  const Vector<double> p = a * b;
#if defined(__FMA__) || defined(__aarch64__)
  return {p, fma(a, b, -p)};
#else
  const Vector<double> a_upper = upper_half(a), b_upper = upper_half(b), a_lower = a - a_upper;
  return {
      p, ((a_upper * b_upper - p) + a_lower * b_upper) + (a_upper * (b - b_upper) + a_lower * (b - b_upper))};
#endif
}
// erfc(a) for a >= 0 as a sum whose second term is what rounding takes from the first. With t = (a - 3) / (a + 3) it is
// e^(-a^2) q(t) / (1 + 2a): a function of one bend, which a polynomial of the Chebyshev nodes follows to 2e-17 (Shepherd and
// Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math. Comp. 36, 1981). Of a^2, e^(-a^2), q and 1 + 2a
// what rounding takes is kept; the quotient leaves an exact rest. A denormal result is `both`, rounded once.
struct ErfcTail {
  Vector<double> high, low, both;
};
CT_INLINE ErfcTail erfc_tail(Vector<double> a) {
  using P = Vector<double>;
  a = where(a > P(27.5), P(27.5), a);
  const Product square = product(a, a);
  const ScaledExpm1 y = scaled_expm1(-square.value, -square.rest);
  const P e = P(1) + y.e, e_rest = ((P(1) - e) + y.e) + y.e_rest;

  const P t = (a - P(3)) / (a + P(3));
  const P bend =
      t * polynomial(t, -0x1.15c084bb9e8f3p-3, -0x1.85a15c58aa4eap-5, 0x1.098366a5b46c8p-3,
                     -0x1.e88b803a4a976p-4, 0x1.17ca2877f0d2cp-4, -0x1.8574c40b65516p-6, 0x1.4b884e44cd0e1p-9,
                     0x1.ef1bdd0bb2a66p-10, -0x1.98db513818f4ap-11, -0x1.b91262a99168ap-14,
                     0x1.065a3be611552p-13, 0x1.4c225639c5885p-18, -0x1.513c1a4a08a45p-16,
                     -0x1.885831a7de850p-21, 0x1.d21dfa3539366p-19, 0x1.7df1f4db22675p-22,
                     -0x1.4b68ad1b45d14p-21, -0x1.2d90f5a1e329cp-23, 0x1.b853b0903e576p-24,
                     0x1.60759b5fc132ap-25, -0x1.d8431ba5bb8ddp-27, -0x1.19ee783a4b3bdp-27,
                     0x1.3a555a247e121p-30, 0x1.cc52dfb8af559p-31, -0x1.bb7a8d4dea67ep-36) +
      P(0x1.69468baa6f9f1p-55);
  const P middle(0x1.40c522d7e4987p+0), q = middle + bend, q_rest = (middle - q) + bend;

  const Product n = product(e, q);
  const P n_rest = n.rest + (e * q_rest + e_rest * q);
  const P twice = P(2) * a, d = P(1) + twice, back = d - twice, d_rest = (twice - (d - back)) + (P(1) - back);
  const P over = P(1) / d, ratio = n.value * over;
  const Product whole = product(ratio, d);
  const P left = (((n.value - whole.value) - whole.rest) + (n_rest - ratio * d_rest)) * over;
  // 2^k in two steps, for denormal results.
  const P::Bits k = y.shifted.bits_less(0x4338000000000000), half = k >> 1;
  const P scale = P::from_bits((half + 1023) << 52), last = P::from_bits((k - half + 1023) << 52);
  return {ratio * scale * last, left * scale * last, (ratio + left) * scale * last};
}
// erf(x) / x - 1 for |x| <= 0.68, of z = x^2.
CT_INLINE Vector<double> erf_curve(Vector<double> z) {
  return polynomial(z, 0x1.06eba8214db68p-3, -0x1.812746b037995p-2, 0x1.ce2f21a03d12ap-4,
                    -0x1.b82ce31013baep-6, 0x1.565bcc83db813p-8, -0x1.c02d90e2dbdc6p-11,
                    0x1.f99db8ef173bap-14, -0x1.f44cd0d2d039cp-17, 0x1.b216d79e21b85p-20,
                    -0x1.1d75986632775p-23);
}
CT_INLINE Vector<double> erfc(Vector<double> x) {
  using P = Vector<double>;
  const ErfcTail tail = erfc_tail(abs(x));
  const P far = where(x < P(0), (P(2) - tail.high) - tail.low, tail.both);
  const P one_less = P(1) - x, x_rest = (P(1) - one_less) - x;
  const P near = one_less + (x_rest - x * erf_curve(x * x));
  return where(abs(x) < P(0.68), near, far);
}
// With two lanes a register the C++ library's is the faster one.
CT_INLINE Vector<double> erf(Vector<double> x) {
  using P = Vector<double>;
  if constexpr (P::kSize == 2) return each(x, [](double v) { return std::erf(v); });
  const ErfcTail tail = erfc_tail(abs(x));
  const P far = (P(1) - tail.high) - tail.low;
  return where(abs(x) < P(0.68), x + x * erf_curve(x * x), copysign(far, x));
}

// ---- Angles and lengths ------------------------------------------------------------------------------------------

// The angle of (x, y) where both are >= 0: turned back by 45 or 90 degrees where it is nearer to them than to 0, its tangent t
// is at most that of 22.5 degrees, and a polynomial in t^2 (of the Chebyshev nodes, as above) good to 0.03 units of the last
// place; 1.5 of them with the rounding of all.
CT_INLINE Vector<double> angle(Vector<double> y, Vector<double> x) {
  using P = Vector<double>;
  const auto both = (x == kInfinity) & (y == kInfinity);
  const P scale = where((x > 0x1p1000) | (y > 0x1p1000), P(0.25), P(1));  // their sum is no infinity
  x = where(both, 1, x * scale), y = where(both, 1, y * scale);
  const auto low = y <= 0.41421356237309503 * x, high = y > 2.4142135623730949 * x;
  const P n = where(low, y, where(high, -x, y - x)), d = where(low, x, where(high, y, y + x));
  const P t = n / where(d == 0, 1, d), z = t * t;
  const P rest =
      polynomial(z, -0x1.5555555555555p-2, 0x1.9999999999953p-3, -0x1.249249248d7eep-3, 0x1.c71c71c304b68p-4,
                 -0x1.745d165df3f95p-4, 0x1.3b1392d9e785cp-4, -0x1.110e880a7a521p-4, 0x1.e19a13b9fc6dfp-5,
                 -0x1.ac7a938b69c93p-5, 0x1.74ddd408bb4c1p-5, -0x1.1b33b923aa954p-5, 0x1.0ad36a455cafbp-6);
  const P turned = where(low, 0, where(high, 0x1.921fb54442d18p+0, P(0x1.921fb54442d18p-1)));
  const P beyond = turned * 3.8981718325193755e-17;  // of its digits, those behind a double's
  return turned + (t + (t * (z * rest) + beyond));
}
CT_INLINE Vector<double> atan2(Vector<double> y, Vector<double> x) {
  using P = Vector<double>;
  const P acute = angle(abs(y), abs(x));
  const auto left = copysign(P(1), x) < 0;
  return copysign(where(left, 0x1.921fb54442d18p+1 - (acute - 0x1.1a62633145c07p-53), acute), y);
}
CT_INLINE Vector<double> atan(Vector<double> x) { return copysign(angle(abs(x), Vector<double>(1)), x); }
// An angle up to 30 degrees as a sum: that whose sine is |x| or, beyond a half, sqrt((1 - |x|) / 2), twice which is acos |x|.
// The coefficients interpolate (asin(s) / s - 1) / s^2 as a function of z = s^2. Of the root the upper half is taken: its
// square is exact, and the rest follows from it.
struct Arc {
  Vector<double> high, low;
};
CT_INLINE Arc small_arc(Vector<double> a) {
  using P = Vector<double>;
  const auto far = a > P(0.5);
  const P z = where(far, P(0.5) * (P(1) - a), a * a), s = where(far, sqrt(z), a);
  const P high = where(far, upper_half(s), a);
  const P root_rest = (z - high * high) / where(z == P(0), P(1), s + high);
  const P curve =
      s * z *
      polynomial(z, 0x1.5555555555556p-3, 0x1.3333333332ec4p-4, 0x1.6db6db6e3292ep-5, 0x1.f1c71c1d4aa0dp-6,
                 0x1.6e8bb1d89492bp-6, 0x1.1c4d343fa57f6p-6, 0x1.c9cf3759fd8ffp-7, 0x1.78246f32d075cp-7,
                 0x1.524ea8b3aad31p-7, 0x1.653a8f8cfd43cp-8, 0x1.1d661531b222ep-6, -0x1.e7a24f548c99fp-7,
                 0x1.d78189767524ep-6);
  return {high, where(far, root_rest, P(0)) + curve};
}
// `turns` quarters of a circle (0, 1 or 2) less times * arc.
CT_INLINE Vector<double> turned_back(Vector<double> turns, Vector<double> times, const Arc& arc) {
  using P = Vector<double>;
  const P whole = turns * P(0x1.921fb54442d18p+0), part = times * arc.high, difference = whole - part;
  const P rest = turns * P(0x1.1a62633145c07p-54) - times * arc.low;
  return difference + (((whole - difference) - part) + rest);
}
CT_INLINE Vector<double> asin(Vector<double> x) {
  using P = Vector<double>;
  const P a = abs(x);
  const auto far = a > P(0.5);
  return copysign(turned_back(where(far, P(1), P(0)), where(far, P(2), P(-1)), small_arc(a)), x);
}
CT_INLINE Vector<double> acos(Vector<double> x) {
  using P = Vector<double>;
  const P a = abs(x), side = copysign(P(1), x);
  const auto far = a > P(0.5);
  return turned_back(where(far, P(1) - side, P(1)), where(far, P(-2) * side, side), small_arc(a));
}

// Scaled by a power of 2 where a square would overflow or vanish.
CT_INLINE Vector<double> hypot(Vector<double> x, Vector<double> y) {
  using P = Vector<double>;
  x = abs(x), y = abs(y);
  const P larger = where(x > y, x, y);
  const auto huge = larger > 0x1p500, tiny = larger < 0x1p-450;
  const P scale = where(huge, 0x1p-600, where(tiny, 0x1p600, P(1)));
  const P back = where(huge, 0x1p600, where(tiny, 0x1p-600, P(1)));
  const P length = back * sqrt((x * scale) * (x * scale) + (y * scale) * (y * scale));
  return where((x == kInfinity) | (y == kInfinity), kInfinity, length);
}

}  // namespace ct::simd
