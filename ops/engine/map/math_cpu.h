#pragma once

#include <cmath>

#include <cotangent/core/simd/exp.h>
#include <cotangent/ops/engine/map/formulas.h>
#include <cotangent/ops/engine/map/pieces_cpu.h>

// Functions of vectors; exp is in core/simd/exp.h, those of f64 alone in math_f64_cpu.h. In f32 they are polynomials on the
// whole register, for integers the C++ library's functions lane by lane.
//
// The coefficients interpolate each function at the Chebyshev nodes of its interval. Largest errors found in
// f32, in units of the last place, against the C++ library in f64 (engine/map/map_test.cpp repeats the search):
//     exp 1.1, log 0.8, tanh 1.3, erf 1.2, sin and cos 0.8 (|x| <= 8192; the C++ library's beyond), softplus 2.0, sigmoid 2.1
//     (left of -88, where it is no normal number, 0), gelu 8 (|x| <= 3; the tail is e^(-x^2/2) times as exact a factor).
// With AVX-512 log, tanh, erf and gelu are others, by tables in registers (pieces_cpu.h): tanh 1.1, erf 1.0 and gelu 6 there.
// Results rounded to 16 bits are within 0.5002 ulp for every input.
// NaN gives NaN, infinities and zeros give their limits, results below 2^-126 are denormal as they should be.

namespace ct::simd {

// A formula finds these through its arguments, wherever it stands.
using map::base_slope, map::clamp, map::exponent_slope, map::gelu, map::kInfinity, map::gelu_slope,
    map::gelu_tanh, map::gelu_tanh_slope, map::integer_power, map::larger_share, map::maximum, map::minimum,
    map::normal_cdf, map::polynomial, map::results, map::sigmoid, map::sign, map::silu_slope, map::softplus;

// f of every lane, one after the other.
template <class T, class F>
CT_INLINE Vector<T> each(Vector<T> x, F f) {
  for (int i = 0; i < Vector<T>::kSize; ++i) x.v[i] = f(x.v[i]);
  return x;
}
template <class T, class F>
CT_INLINE Vector<T> each(Vector<T> x, Vector<T> y, F f) {
  for (int i = 0; i < Vector<T>::kSize; ++i) x.v[i] = f(x.v[i], y.v[i]);
  return x;
}

template <class T>
CT_INLINE Vector<T> abs(Vector<T> x) {
  if constexpr (std::is_integral_v<T>) {
    return where(x < Vector<T>(0), -x, x);
  } else {
    using Bits = detail::Signed<T>;
    return Vector<T>::from_bits(x.bits() & static_cast<Bits>(~Bits{0} ^ (Bits{1} << (8 * sizeof(T) - 1))));
  }
}
// a >= 0 with the sign of b.
template <class T>
CT_INLINE Vector<T> copysign(Vector<T> a, Vector<T> b) {
  using Bits = detail::Signed<T>;
  return Vector<T>::from_bits(a.bits() | (b.bits() & static_cast<Bits>(Bits{1} << (8 * sizeof(T) - 1))));
}

template <class T>
CT_INLINE Vector<T> sqrt(Vector<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return (typename Vector<T>::Raw)_mm512_maskz_sqrt_ps(0xffff, (__m512)x.v);
  else
    return (typename Vector<T>::Raw)_mm512_maskz_sqrt_pd(0xff, (__m512d)x.v);
#endif
  return each(x, [](T v) { return std::sqrt(v); });
}

template <class T>
CT_INLINE Vector<T> rsqrt(Vector<T> x) {
  return Vector<T>(1) / sqrt(x);
}

// The nearest integer of |x| < 2^22, as a float and in the low bits of `bits`: adding 1.5 * 2^23 leaves no
// room for a fraction.
struct Rounded {
  Vector<float> value;
  Vector<float>::Bits integer;
};
CT_INLINE Rounded round_to_integer(Vector<float> x) {
  const Vector<float> shifted = x + Vector<float>(12582912.0f);
  return {shifted - Vector<float>(12582912.0f), shifted.bits_less(0x4b400000)};
}

// e^(-x^2/2). The rounding of x^2 costs 6e-8 x^2 of the result, which is small where x is large.
template <class T>
CT_INLINE Vector<T> gauss(Vector<T> x) {
  return exp(Vector<T>(-0.5) * (x * x));
}
// a / b, for formulas that can do with the GPU's 2 ulp.
template <class T>
CT_INLINE Vector<T> quotient(Vector<T> a, Vector<T> b) {
  return a / b;
}

#if defined(__AVX512F__)
// log x = e ln 2 - log c + log(1 + r) with x = 2^e m, 3/4 <= m < 3/2, c near 1 / m by the first bits of m, and r = c m - 1.
// ln 2 and log c have so few bits that their sum is exact (c was chosen so that its log, of 17 bits behind the point, is right
// to 2^-33); around m = 1 c is 1, and nothing cancels. The instructions know 0, infinity, NaN and denormals by themselves.
CT_INLINE Vector<float> log(Vector<float> x) {
  using P = Vector<float>;
  const P m = (P::Raw)_mm512_maskz_getmant_ps(0xffff, (__m512)x.v, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  const P floor = (P::Raw)_mm512_maskz_getexp_ps(0xffff, (__m512)x.v);
  const P e = where(m < P(1.0f), floor + P(1.0f), floor);
  const P::Bits first = m.bits() >> 19;
  const P r = fma(m, pick(kLog[0], first), P(-1.0f));
  const P p = polynomial(r, -0.499999851, 0.333334684, -0.25012368, 0.200062513, -0.144543856);
  const P low = fma(r * r, p, fma(e, P(1.42860677e-6f), r));
  return fma(e, P(0.693145752f), pick(kLog[1], first)) + low;
}
CT_INLINE Vector<float> tanh(Vector<float> x) { return copysign(kTanh(abs(x)), x); }
CT_INLINE Vector<float> erf(Vector<float> x) {
  using P = Vector<float>;
  const P a = abs(x), y = kErf(a);
  return copysign(where(a + P(kErf.offset) < P(0.375f), y + a, y), x);
}
// 2^k 2^r with |r| <= 1/2; on the way to r the product with a constant is not rounded. Of a NaN, and where Phi's tail has ended,
// that of the end, which is 0 for all who use it.
CT_INLINE Vector<float> gauss(Vector<float> x) {
  using P = Vector<float>;
  const P magic(0x1.8p23f), c(-0.5f * 0x1.715476p0f), a = least_magnitude(x, kTail.end), y = a * a;
  const P k = fma(y, c, magic) - magic, r = fma(y, c, -k);
  const P p =
      polynomial(r, 1, 0.693147182, 0.240226477, 0.0555035956, 0.00961849932, 0.00133909704, 0.000153293106);
  return (P::Raw)_mm512_maskz_scalef_ps(0xffff, (__m512)p.v, (__m512)k.v);
}
// By the tail Phi(-|x|), in relative error also far out. A NaN stands for the end here: who multiplies by x has it back.
CT_INLINE Vector<float> normal_cdf(Vector<float> x, Vector<float>) {
  const __m512 tail = (__m512)kTail(least_magnitude(x, kTail.end)).v;
  const __mmask16 right = _mm512_cmp_ps_mask((__m512)x.v, _mm512_setzero_ps(), _CMP_NLT_UQ);
  return (Vector<float>::Raw)_mm512_mask_sub_ps(tail, right, _mm512_set1_ps(1), tail);
}
#else

// log x = e ln 2 + log(1 + f) with x = 2^e (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)).
CT_INLINE Vector<float> log(Vector<float> x) {
  using P = Vector<float>;
  const auto denormal = x < P(1.17549435e-38f);  // scaled up by 2^23 (0 and negative numbers come along)
  const P scaled = where(denormal, x * P(8388608.0f), x);
  const P::Bits shifted = scaled.bits_less(0x3f3504f3);  // the bits of sqrt(1/2)
  const P::Bits e = shifted >> 23;
  const P f = P::from_bits((shifted & 0x007fffff) + 0x3f3504f3) - P(1.0f);
  const P exponent = P(__builtin_convertvector(e, P::Raw)) - where(denormal, P(23.0f), P(0.0f));
  const P p = polynomial(f, 0.3333333118, -0.2499999696, 0.2000071575, -0.1666780232, 0.1424905765,
                         -0.1242568733, 0.1168541992, -0.1147973385, 0.06971611471);
  const P f2 = f * f;
  const P low = f2 * f * p - exponent * P(2.12194440e-4f) - P(0.5f) * f2;
  const P y = low + f + exponent * P(0.693359375f);
  const P infinity = P(__builtin_inff());
  const P special = where(x == P(0.0f), -infinity, where(x < P(0.0f), P(__builtin_nanf("")), x));
  return where((x > P(0.0f)) & (x < infinity), y, special);
}
// An odd polynomial near 0, beyond it 1 - 2 / (e^(2|x|) + 1).
CT_INLINE Vector<float> tanh(Vector<float> x) {
  using P = Vector<float>;
  const P a = abs(x);
  const P z = x * x;
  const P p = polynomial(z, -0.3333332898, 0.1333277302, -0.05385140937, 0.02099955252, -0.006100170943);
  const P far = P(1.0f) - P(2.0f) / (exp(P(2.0f) * a) + P(1.0f));
  return copysign(where(a < P(0.625f), a + a * (z * p), far), x);
}
// An odd polynomial up to |x| = 1, beyond it 1 - e^-q(|x|) with a polynomial q = -ln erfc. From 4 on erf is 1
// to the last place.
CT_INLINE Vector<float> erf(Vector<float> x) {
  using P = Vector<float>;
  const P a = abs(x);
  const P z = x * x;
  const P near = polynomial(z, 0.1283791658, -0.3761262667, 0.1128359472, -0.02685421201, 0.005189087423,
                            -0.0008016864287, 7.875875063e-5);
  const P c = where(a > P(4.0f), P(4.0f), a);
  const P q = polynomial(c, 0.0003419623434, 1.127088923, 0.6381424864, 0.1031114566, -0.02184170712,
                         0.00294894595, -0.0001865517096);
  return where(a < P(1.0f), x + x * near, copysign(P(1.0f) - exp(-q), x));
}
#endif

// log(1 + u) for u in [-1, 1]: what rounding 1 + u has taken is added, over 1 + u.
CT_INLINE Vector<float> log1p(Vector<float> u) {
  using P = Vector<float>;
  const P w = P(1.0f) + u;
  return log(w) + (u - (w - P(1.0f))) / where(w == P(0.0f), P(1.0f), w);
}
// sin(x + quarter * pi/2): x = n pi/2 + r with |r| <= pi/4; the quadrant n says which polynomial and sign.
// pi/2 comes in four parts, of which the first three have so few bits that their products are exact; what r loses by
// rounding is kept in `rest`, and what 1 - z/2 loses is given back.
CT_INLINE Vector<float> sin_of(Vector<float> x, int quarter) {
  using P = Vector<float>;
  const auto reducible = abs(x) <= P(8192.0f);
  const P c = where(reducible, x, P(0.0f));
  const Rounded n = round_to_integer(c * P(0.636619772f));
  const P near = (c - n.value * P(1.5703125f)) - n.value * P(4.837512969970703125e-4f);
  const P third = n.value * P(7.5495336204767227e-8f);
  const P r = near - third;
  const P rest = ((near - r) - third) - n.value * P(2.5633440682570896e-12f);
  const P z = r * r, half = P(0.5f) * z, w = P(1.0f) - half;
  const P s =
      r + (r * z * polynomial(z, -0.1666666666, 0.008333331866, -0.0001984008201, 2.724931405e-6) + rest * w);
  const P k = w + (((P(1.0f) - w) - half) +
                   (z * z * polynomial(z, 0.04166666466, -0.00138883007, 2.454743721e-5) - r * rest));
  const P::Bits quadrant = n.integer + quarter;
  const P y = where(P::Mask{(quadrant & 1) != 0}, k, s);
  const P result = P::from_bits(y.bits() ^ ((quadrant & 2) << 30));
  const auto far = !reducible;
  if (far.any()) [[unlikely]] {
    P slow = result;
    for (int i = 0; i < P::kSize; ++i)
      if (far.v[i]) slow.v[i] = quarter ? std::cos(x.v[i]) : std::sin(x.v[i]);
    return slow;
  }
  return result;
}
CT_INLINE Vector<float> sin(Vector<float> x) {
  return where(x == Vector<float>(0.0f), x, sin_of(x, 0));
}  // -0
CT_INLINE Vector<float> cos(Vector<float> x) { return sin_of(x, 1); }
template <class T>
CT_INLINE Vector<T> pow(Vector<T> x, Vector<T> y) {
  return each(x, y, [](T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return integer_power(a, b);
    } else {
      return std::pow(a, b);
    }
  });
}

// Integers are whole already. Ties of rint go to the even neighbour.
#define CT_ROUNDING(name)                               \
  template <class T>                                    \
  CT_INLINE Vector<T> name(Vector<T> x) {               \
    if constexpr (std::is_integral_v<T>)                \
      return x;                                         \
    else                                                \
      return each(x, [](T v) { return std::name(v); }); \
  }
CT_ROUNDING(floor)
CT_ROUNDING(ceil)
CT_ROUNDING(trunc)
CT_ROUNDING(rint)
#undef CT_ROUNDING

// ---- Integers alone ------------------------------------------------------------------------------------------

using Integers = Vector<std::int64_t>;
CT_INLINE Integers fmod(Integers x, Integers y) { return each(x, y, map::integer_remainder); }
CT_INLINE Integers truncated_quotient(Integers x, Integers y) { return each(x, y, map::integer_quotient); }
CT_INLINE Integers bit_and(Integers x, Integers y) { return Integers(x.v & y.v); }
CT_INLINE Integers bit_or(Integers x, Integers y) { return Integers(x.v | y.v); }
CT_INLINE Integers bit_xor(Integers x, Integers y) { return Integers(x.v ^ y.v); }
CT_INLINE Integers shift_left(Integers x, Integers y) { return each(x, y, map::shifted_left); }
CT_INLINE Integers shift_right(Integers x, Integers y) { return each(x, y, map::shifted_right); }

}  // namespace ct::simd
