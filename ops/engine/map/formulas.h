#pragma once

// Formulas that the tables of unary and binary ops share, for any number type X: simd::Vector<T> on the CPU, Lane<T>
// on the GPU. Both bring their own abs, exp, log, log1p, sqrt, rsqrt, sin, cos, tanh, erf, erfc, pow, where,
// and gauss and quotient, which may be less exact on the GPU; all are found through the argument. The divisor
// of quotient is 1 or more. Cold formulas may name more of <cmath>. CT_FORMULA marks a function for the device that is
// being compiled for.

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include <cotangent/core/base/export.h>

#if defined(__CUDACC__)
#define CT_FORMULA __device__ __forceinline__
#else
#define CT_FORMULA inline __attribute__((always_inline))
#endif

namespace ct::map {

// A gradient is differentiated again by the rules (elementwise/rule_internal.h), and where(singular, 0, g * bad) would give
// 0 times infinity there: what is singular is kept from the operand. A branch that holds a value of the gradient holds its
// derivatives as well, or covers nothing but where there are none.

/// Defaults of a formula for the drivers (map_cpu.h, map_cuda.cuh). A formula is a struct
///
///     struct Fused : Formula {
///       static constexpr int kInputs = 3, kOutputs = 2;
///       template <class X> static CT_FORMULA auto eval(X a, X b, X c, X p, X q) { return results(a * b + c, a * c); }
///     };
///
/// with the parameters p and q of the call behind the inputs.
struct Formula {
  /// More than one: eval gives results(...), of which a call may leave some out.
  static constexpr int kOutputs = 1;
  /// Bit i: input i may be bool, which is read as 0 or 1, where the others are not; or undefined, and is 1 then.
  static constexpr unsigned kMasks = 0, kOptional = 0;
  /// Behind the inputs comes a truth value that is drawn for every element (Draw in map.h).
  static constexpr bool kDraws = false;
  /// Seldom called: worth no kernels of its own. On the CPU it is compiled for f64 alone, in which f32 and 16 bits are
  /// computed too, and rounded once; on CUDA it has no vector kernels.
  static constexpr bool kCold = false;
  /// False: on the CPU the op's plain kernels do f64.
  static constexpr bool kF64OnCpu = true;
  /// On CUDA, what was read is not kept in caches.
  static constexpr bool kStreaming = false;
  /// Elements worth a task on the CPU.
  static constexpr std::int64_t kGrain = 32768;
};
struct Cold : Formula {
  static constexpr bool kCold = true;
  static constexpr std::int64_t kGrain = 4096;
};
/// A formula with its text: CT_MAP_FORMULA(Fused, Formula, 3, 1, (X a, X b, X c, X p, X q), return a * b + c) has 3
/// inputs and 1 output, and the traits of Formula, or of a struct that derives from it. kText is the body and kNames the list
/// of arguments, from which kernels that are compiled at run time are made (ops/engine/map/chain.h).
#define CT_MAP_FORMULA(name, traits, inputs, outputs, arguments, ...)                 \
  struct name : traits {                                                              \
    static constexpr int kInputs = inputs, kOutputs = outputs;                        \
    [[maybe_unused]] static constexpr std::string_view kText = #__VA_ARGS__;          \
    [[maybe_unused]] static constexpr std::string_view kNames = CT_TEXT_OF arguments; \
    template <class X>                                                                \
    static CT_FORMULA auto eval arguments {                                           \
      __VA_ARGS__;                                                                    \
    }                                                                                 \
  };
#define CT_TEXT_OF(...) #__VA_ARGS__

/// How many arguments stand before p and q.
template <class F>
inline constexpr int kArguments = F::kInputs + (F::kDraws ? 1 : 0);

/// Several results of a formula.
template <class X, int kCount>
struct Results {
  X of[kCount];
};
template <class X, class... Rest>
CT_FORMULA auto results(X first, Rest... rest) {
  return Results<X, 1 + sizeof...(Rest)>{{first, X(rest)...}};
}

inline constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
inline constexpr double kSqrtHalf = 0.70710678118654752440;
inline constexpr double kOneOverSqrtTwoPi = 0.39894228040143267794;
inline constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
inline constexpr double kLn2 = 0.69314718055994530942;
inline constexpr double kLn10 = 2.30258509299404568402;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Constants of selu (Klambauer et al., 2017), for which the mean 0 and the variance 1 are a fixed point.
inline constexpr double kSeluScale = 1.0507009873554804934;
inline constexpr double kSeluAlpha = 1.6732632423543772848;

// A power of integers, wrapping like their products. A negative exponent gives 0, except for 1 and -1.
CT_HD inline std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  std::uint64_t result = 1, square = static_cast<std::uint64_t>(base);
  for (; exponent; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return static_cast<std::int64_t>(result);
}

// Quotients of integers, towards 0, and what is left. Where b is 0 both are 0, on every device; -1 is apart because the
// quotient of the lowest number wraps around.
CT_HD inline std::int64_t integer_quotient(std::int64_t a, std::int64_t b) {
  return b == 0 ? 0 : b == -1 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a)) : a / b;
}
CT_HD inline std::int64_t integer_remainder(std::int64_t a, std::int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}
// A negative number of bits counts as more than there are.
CT_HD inline std::int64_t shifted_left(std::int64_t a, std::int64_t bits) {
  return bits < 0 || bits > 63 ? 0 : static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << bits);
}
CT_HD inline std::int64_t shifted_right(std::int64_t a, std::int64_t bits) {
  return a >> (bits < 0 || bits > 63 ? 63 : bits);
}

// NaN stays NaN, -0 stays -0.
template <class X>
CT_FORMULA X sign(X x) {
  return where(x > 0, 1, where(x < 0, -1, x));
}

// c0 + c1 x + c2 x^2 + ... (Horner; the compilers contract each step into one fused multiply-add).
template <class X, class... C>
CT_FORMULA X polynomial(X x, double c0, C... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return X(c0);
  } else {
    return polynomial(x, rest...) * x + X(c0);
  }
}

// Far left exp(-x) is infinite and the result 0, as it should be.
template <class X>
CT_FORMULA X sigmoid(X x) {
  return quotient(X(1), 1 + exp(-x));
}

// The normal distribution Phi(x), with e = gauss(x) = e^(-x^2/2), which its callers often need as well. In
// f32 the tail Phi(-|x|) is e t P(t) with t = 1 / (1 + 0.28 |x|) and P the polynomial through e^(x^2/2)
// Phi(-|x|) / t at the Chebyshev nodes of |x| < 14: relative error 7.4e-8, also far out, where 1 + erf has
// lost all digits. It costs one exponential and one quotient, which on a GPU is what keeps 16-bit gelu at the
// speed of memory.
template <class X>
CT_FORMULA X normal_cdf(X x, X e) {
  if constexpr (sizeof(typename X::Scalar) == 8) {
    return 0.5 * erfc(-kSqrtHalf * x);
  } else {
    const X t = quotient(X(1), 1 + 0.28 * abs(x));
    const X tail =
        e * (t * polynomial(t, 0.1116824236, 0.1120834614, 0.1002536786, 0.09489498467, 0.04625853609,
                            0.03151626044, 0.06000961519, -0.07844003158, 0.02174108901));
    return where(x < 0, tail, 1 - tail);
  }
}

template <class X>
CT_FORMULA X gelu(X x) {
  return x * normal_cdf(x, gauss(x));
}
// Phi(x) + x phi(x), with the density phi.
template <class X>
CT_FORMULA X gelu_slope(X x) {
  const X e = gauss(x);
  return normal_cdf(x, e) + x * (kOneOverSqrtTwoPi * e);
}

// x (1 + tanh(u)) / 2 = x s(2u) with the sigmoid s.
template <class X>
CT_FORMULA X gelu_tanh(X x) {
  return quotient(x, 1 + exp(-2 * kSqrtTwoOverPi * (x + 0.044715 * (x * x * x))));
}
// s(2u) + x s (1 - s) 2u' with s = s(2u). Far out s (1 - s) is 0, and is multiplied by x, not by an x^2 that may be
// infinite.
template <class X>
CT_FORMULA X gelu_tanh_slope(X x, X s) {
  const X t = x * (s * (1 - s));
  return s + 2 * kSqrtTwoOverPi * (t + 3 * 0.044715 * (x * (x * t)));
}
template <class X>
CT_FORMULA X gelu_tanh_slope(X x) {
  return gelu_tanh_slope(x, sigmoid(2 * kSqrtTwoOverPi * (x + 0.044715 * (x * x * x))));
}

// (x s(x))' = s + x s (1 - s) with the sigmoid s.
template <class X>
CT_FORMULA X silu_slope(X x) {
  const X s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

// ln(1 + e^t) = max(t, 0) + ln(1 + e^-|t|) does not overflow; above the threshold it is x to the last place.
template <class X>
CT_FORMULA X softplus(X x, X beta, X threshold) {
  const X t = beta * x;
  return where(t > threshold, x, (where(t <= 0, 0, t) + log1p(exp(-abs(t)))) / beta);
}

// The upper bound wins where the bounds cross. NaN stays NaN.
template <class X>
CT_FORMULA X clamp(X x, X low, X high) {
  const X raised = where(x < low, low, x);
  return where(raised > high, high, raised);
}

// NaN wins: where a is NaN it is taken, where only b is, the comparison fails.
template <class X>
CT_FORMULA X maximum(X a, X b) {
  return where((a > b) | (a != a), a, b);
}
template <class X>
CT_FORMULA X minimum(X a, X b) {
  return where((a < b) | (a != a), a, b);
}
// The cotangent of max(a, b) that belongs to a: all of it, half of it at a tie, or nothing. By symmetry
// max(b, a) serves b, and exchanging the arguments serves the minimum.
template <class X>
CT_FORMULA X larger_share(X g, X a, X b) {
  return where(a == b, 0.5 * g, where(a < b, 0, g));
}

// d(a^b)/da = b a^(b-1), and 0 for b = 0 near a = 0, where a^(b-1), or a power that its derivatives have, is infinite.
template <class X>
CT_FORMULA X base_slope(X g, X a, X b) {
  const auto singular = (b == 0) & ((abs(a) < 1e-12) | (a != a));
  return where(singular, 0, g * (b * pow(where(singular, 1, a), b - 1)));
}
// d(a^b)/db = a^b ln a, and 0 for a = 0 and b >= 0, where it is 0 times -inf.
template <class X>
CT_FORMULA X exponent_slope(X g, X a, X b) {
  const auto singular = (a == 0) & (b >= 0);
  const X base = where(singular, 1, a);
  return where(singular, 0, g * (pow(base, b) * log(base)));
}

// ---- Cold lines ---------------------------------------------------------------------------------------------

// expm1 keeps the digits near 0.
template <class X>
CT_FORMULA X elu(X x, X alpha) {
  return where(x > 0, x, alpha * expm1(x));
}
template <class X>
CT_FORMULA X elu_slope(X x, X alpha) {
  return where(x <= 0, alpha * exp(where(x <= 0, x, 0)), 1);
}
template <class X>
CT_FORMULA X hard_sigmoid(X x) {
  return clamp(x + 3, X(0), X(6)) / 6;
}
template <class X>
CT_FORMULA X hard_swish(X x) {
  return where(x <= -3, 0, where(x >= 3, x, x * ((x + 3) / 6)));
}
// PyTorch's since 2.7; before, it was that of the middle at both corners.
template <class X>
CT_FORMULA X hard_swish_slope(X g, X x) {
  const X inner = where((x <= -3) | (x >= 3), 0, x);
  return where(x <= -3, 0, where(x >= 3, g, g * (inner / 3 + 0.5)));
}
// tanh(softplus(x)) = n / (n + 2) with n = e^x (e^x + 2); right of 0 both are divided by e^2x, so that nothing overflows.
// `rest` is 1 - tanh(softplus(x)), of which a difference would leave no digits. (No |x|: a rule would take its slope at 0.)
template <class X>
CT_FORMULA X mish_gate(X x) {
  const X w = exp(where(x > 0, -x, x)), n = w * (w + 2), m = 1 + 2 * w;
  return where(x > 0, m / (m + 2 * (w * w)), n / (n + 2));
}
template <class X>
CT_FORMULA X mish_slope(X x) {
  const X w = exp(where(x > 0, -x, x)), n = w * (w + 2), d = 2 * (w * w);
  const X gate = mish_gate(x), rest = where(x > 0, d / (1 + 2 * w + d), 2 / (n + 2));
  return gate + x * (rest * (1 + gate)) * sigmoid(x);
}
// ln s(x) = min(x, 0) - ln(1 + e^-|x|) does not overflow.
template <class X>
CT_FORMULA X log_sigmoid(X x) {
  return where(x >= 0, 0, x) - log1p(exp(-abs(x)));
}

// The cross-entropy of chance p against b, and its slopes: PyTorch's bounds keep them finite where p is 0 or 1.
template <class X>
CT_FORMULA X bounded_log(X l) {
  return where(l < -100, -100, l);
}
template <class X>
CT_FORMULA X chance_loss(X p, X b) {
  return -(b * bounded_log(log(p)) + (1 - b) * bounded_log(log1p(-p)));
}
// bounded_log(log(p)), bounded_log(log1p(-p))
template <class X>
CT_FORMULA X log_chance(X p) {
  const auto out = (p >= 0) & (p < 3.7200759760208361e-44);  // e^-100
  return where(out, -100, log(where(out, 1, p)));
}
template <class X>
CT_FORMULA X log_other_chance(X p) {
  return where(p == 1, -100, log1p(-where(p == 1, 0, p)));
}
template <class X>
CT_FORMULA X chance_slope(X g, X p, X b) {
  const X spread = p * (1 - p);
  return g * ((p - b) / where(spread < 1e-12, 1e-12, spread));
}

// The remainder with the sign of the divisor, from the one with the sign of the dividend. Integers: 0 where b is 0.
template <class X>
CT_FORMULA X remainder(X a, X b) {
  const X r = fmod(a, b);
  return where((r != 0) & ((r < 0) ^ (b < 0)), r + b, r);
}
// floor(a / b) as (a - remainder) / b, which is whole but for rounding: a / b itself may be rounded up to a whole number.
// Integers: 0 where b is 0.
template <class X>
CT_FORMULA X floor_divide(X a, X b) {
  const X r = fmod(a, b);
  const auto below = (r != 0) & ((r < 0) ^ (b < 0));
  if constexpr (std::is_integral_v<typename X::Scalar>) {
    const X quotient = truncated_quotient(a, b);
    return where(below, quotient - 1, quotient);
  } else {
    const X whole = (a - r) / b, quotient = where(below, whole - 1, whole), low = floor(quotient);
    const X rounded = where(quotient - low > 0.5, low + 1, low);
    return where(b == 0, a / b, where(quotient == 0, 0 * (a / b), rounded));  // 0 with the sign of a / b
  }
}
// a over the length of (a, b), 0 at the origin.
template <class X>
CT_FORMULA X hypot_slope(X g, X a, X b) {
  const X r = hypot(a, b);
  return where(r == 0, 0, g * (a / where(r == 0, 1, r)));
}
// b / (a^2 + b^2), 0 at the origin; squares would overflow.
template <class X>
CT_FORMULA X angle_slope(X g, X a, X b) {
  const X r = hypot(a, b), length = where(r == 0, 1, r);
  return where(r == 0, 0, g * (b / length / length));
}
// a ln b, and 0 for a = 0, unless b is NaN.
template <class X>
CT_FORMULA X xlogy(X a, X b) {
  return where((a == 0) & (b == b), 0, a * log(b));
}
// ln b, and 0 for a = 0 where there is none.
template <class X>
CT_FORMULA X xlogy_slope_a(X g, X a, X b) {
  const auto singular = (a == 0) & (b <= 0);
  return where(singular, 0, xlogy(g, where(singular, 1, b)));
}
// a / b, and 0 for a = 0 where there is no ln b.
template <class X>
CT_FORMULA X xlogy_slope_b(X g, X a, X b) {
  const auto singular = (a == 0) & ((b <= 0) | (b != b));
  return where(singular, 0, g * (a / where(singular, 1, b)));
}
// a - b trunc(a / b) in b: the whole number from the remainder, for a / b itself may be rounded up to one.
template <class X>
CT_FORMULA X truncated_quotient_of(X a, X b) {
  return rint((a - fmod(a, b)) / b);
}
// a where w is 0 and b where it is 1, to the last place: each half counts from its own end.
template <class X>
CT_FORMULA X lerp(X a, X b, X w) {
  return where(abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w));
}
// |a - b| <= absolute + relative |b|. Infinities are close to themselves alone.
template <class X>
CT_FORMULA auto is_close(X a, X b, X relative, X absolute) {
  const X distance = abs(a - b);
  return (a == b) | ((distance <= absolute + relative * abs(b)) & (distance < kInfinity));
}

}  // namespace ct::map
