#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <cotangent/core/cuda/math.h>
#include <cotangent/ops/engine/map/formulas.h>

// Lane<T>: one number of a GPU thread, with the operators and functions that formulas use (the GPU's twin of
// simd::Vector<T>). A literal in a formula takes the lane's type: 0.5 * x stays in float. The functions are CUDA's,
// with at most 2 ulp of error; nothing is compiled with fast-math.
//
// Lane<float, true> is for results that are rounded to 16 bits: its exp and quotient are the special function
// unit's. They are off by less than 2^-18, a fraction of that rounding, for half the instructions, without
// which 16-bit activations would run at the speed of arithmetic instead of memory's.

namespace ct::map {

struct LaneMask {
  bool v;
  friend __device__ __forceinline__ LaneMask operator&(LaneMask a, LaneMask b) { return {a.v && b.v}; }
  friend __device__ __forceinline__ LaneMask operator|(LaneMask a, LaneMask b) { return {a.v || b.v}; }
  friend __device__ __forceinline__ LaneMask operator^(LaneMask a, LaneMask b) { return {a.v != b.v}; }
  friend __device__ __forceinline__ LaneMask operator!(LaneMask a) { return {!a.v}; }
};

// Long functions are called, not inlined: their code would be repeated for every element in flight.
static __device__ __noinline__ float call_pow(float a, float b) { return ::pow(a, b); }
static __device__ __noinline__ double call_pow(double a, double b) { return ::pow(a, b); }
static __device__ __noinline__ std::int64_t call_pow(std::int64_t a, std::int64_t b) {
  return integer_power(a, b);
}
#define CT_LANE_FUNCTION(name)                                                       \
  static __device__ __forceinline__ float call_##name(float x) { return ::name(x); } \
  static __device__ __noinline__ double call_##name(double x) { return ::name(x); }
CT_LANE_FUNCTION(exp)
CT_LANE_FUNCTION(log)
CT_LANE_FUNCTION(log1p)
CT_LANE_FUNCTION(sin)
CT_LANE_FUNCTION(cos)
CT_LANE_FUNCTION(tanh)
CT_LANE_FUNCTION(erf)
CT_LANE_FUNCTION(erfc)
#undef CT_LANE_FUNCTION
// Functions of cold formulas, of which many share a kernel, are called in f32 too.
#define CT_LANE_CALLED(name)                                                      \
  static __device__ __noinline__ float call_##name(float x) { return ::name(x); } \
  static __device__ __noinline__ double call_##name(double x) { return ::name(x); }
#define CT_LANE_COLD(each)                                                                            \
  each(expm1) each(exp2) each(log2) each(log10) each(tan) each(asin) each(acos) each(atan) each(sinh) \
      each(cosh) each(asinh) each(acosh) each(atanh)
CT_LANE_COLD(CT_LANE_CALLED)
#undef CT_LANE_CALLED
#define CT_LANE_CALLED(name)                                                                  \
  static __device__ __noinline__ float call_##name(float x, float y) { return ::name(x, y); } \
  static __device__ __noinline__ double call_##name(double x, double y) { return ::name(x, y); }
CT_LANE_CALLED(fmod)
CT_LANE_CALLED(atan2)
CT_LANE_CALLED(hypot)
#undef CT_LANE_CALLED
static __device__ __noinline__ std::int64_t call_fmod(std::int64_t x, std::int64_t y) {
  return integer_remainder(x, y);
}
static __device__ __noinline__ std::int64_t call_quotient_of(std::int64_t x, std::int64_t y) {
  return integer_quotient(x, y);
}
// e^(-x^2/2) and a / b by the special function unit, to a few ulp.
__device__ __forceinline__ float call_gauss(float x) { return gpu::exp_fast(-0.5f * (x * x)); }
__device__ __forceinline__ double call_gauss(double x) { return call_exp(-0.5 * (x * x)); }
__device__ __forceinline__ float call_quotient(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ double call_quotient(double a, double b) { return a / b; }
// For b from 1 to infinity.
__device__ __forceinline__ float call_rough_quotient(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  return a * inverse;
}

template <class T, bool kRough = false>
struct Lane {
  using Scalar = T;
  T v;

  // Integers wrap around: their sums and products are those of the unsigned numbers.
  static __device__ __forceinline__ auto wrap(T t) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<std::make_unsigned_t<T>>(t);
    else
      return t;
  }

  Lane() = default;
  template <class S, std::enable_if_t<std::is_arithmetic_v<S>, int> = 0>
  __device__ __forceinline__ Lane(S s) : v(static_cast<T>(s)) {}

  friend __device__ __forceinline__ Lane operator+(Lane a, Lane b) {
    return static_cast<T>(wrap(a.v) + wrap(b.v));
  }
  friend __device__ __forceinline__ Lane operator-(Lane a, Lane b) {
    return static_cast<T>(wrap(a.v) - wrap(b.v));
  }
  friend __device__ __forceinline__ Lane operator*(Lane a, Lane b) {
    return static_cast<T>(wrap(a.v) * wrap(b.v));
  }
  friend __device__ __forceinline__ Lane operator/(Lane a, Lane b) { return a.v / b.v; }
  friend __device__ __forceinline__ Lane operator-(Lane a) { return static_cast<T>(-wrap(a.v)); }
  friend __device__ __forceinline__ LaneMask operator<(Lane a, Lane b) { return {a.v < b.v}; }
  friend __device__ __forceinline__ LaneMask operator<=(Lane a, Lane b) { return {a.v <= b.v}; }
  friend __device__ __forceinline__ LaneMask operator>(Lane a, Lane b) { return {a.v > b.v}; }
  friend __device__ __forceinline__ LaneMask operator>=(Lane a, Lane b) { return {a.v >= b.v}; }
  friend __device__ __forceinline__ LaneMask operator==(Lane a, Lane b) { return {a.v == b.v}; }
  friend __device__ __forceinline__ LaneMask operator!=(Lane a, Lane b) { return {a.v != b.v}; }
  friend __device__ __forceinline__ Lane where(LaneMask m, Lane a, Lane b) { return m.v ? a.v : b.v; }

  friend __device__ __forceinline__ Lane abs(Lane x) {
    if constexpr (std::is_integral_v<T>)
      return x.v < 0 ? -x.v : x.v;
    else
      return ::fabs(x.v);
  }
  friend __device__ __forceinline__ Lane exp(Lane x) {
    if constexpr (kRough)
      return gpu::exp_fast(x.v);
    else
      return call_exp(x.v);
  }
  friend __device__ __forceinline__ Lane log(Lane x) { return call_log(x.v); }
  friend __device__ __forceinline__ Lane log1p(Lane x) { return call_log1p(x.v); }
  friend __device__ __forceinline__ Lane sqrt(Lane x) { return ::sqrt(x.v); }
  friend __device__ __forceinline__ Lane rsqrt(Lane x) { return ::rsqrt(x.v); }
  friend __device__ __forceinline__ Lane sin(Lane x) { return call_sin(x.v); }
  friend __device__ __forceinline__ Lane cos(Lane x) { return call_cos(x.v); }
  friend __device__ __forceinline__ Lane tanh(Lane x) { return call_tanh(x.v); }
  friend __device__ __forceinline__ Lane erf(Lane x) { return call_erf(x.v); }
  friend __device__ __forceinline__ Lane erfc(Lane x) { return call_erfc(x.v); }
  friend __device__ __forceinline__ Lane gauss(Lane x) { return call_gauss(x.v); }
  friend __device__ __forceinline__ Lane quotient(Lane a, Lane b) {
    if constexpr (kRough)
      return call_rough_quotient(a.v, b.v);
    else
      return call_quotient(a.v, b.v);
  }
  friend __device__ __forceinline__ Lane pow(Lane x, Lane y) { return call_pow(x.v, y.v); }
#define CT_LANE_CALLED(name) \
  friend __device__ __forceinline__ Lane name(Lane x) { return call_##name(x.v); }
  CT_LANE_COLD(CT_LANE_CALLED)
#undef CT_LANE_CALLED
  friend __device__ __forceinline__ Lane fmod(Lane x, Lane y) { return call_fmod(x.v, y.v); }
  friend __device__ __forceinline__ Lane atan2(Lane x, Lane y) { return call_atan2(x.v, y.v); }
  friend __device__ __forceinline__ Lane hypot(Lane x, Lane y) { return call_hypot(x.v, y.v); }
  // For integers alone.
  friend __device__ __forceinline__ Lane truncated_quotient(Lane x, Lane y) {
    return call_quotient_of(x.v, y.v);
  }
  friend __device__ __forceinline__ Lane bit_and(Lane x, Lane y) { return x.v & y.v; }
  friend __device__ __forceinline__ Lane bit_or(Lane x, Lane y) { return x.v | y.v; }
  friend __device__ __forceinline__ Lane bit_xor(Lane x, Lane y) { return x.v ^ y.v; }
  friend __device__ __forceinline__ Lane shift_left(Lane x, Lane y) { return shifted_left(x.v, y.v); }
  friend __device__ __forceinline__ Lane shift_right(Lane x, Lane y) { return shifted_right(x.v, y.v); }
// Integers are whole already. Ties of rint go to the even neighbour.
#define CT_LANE_ROUNDING(name)                          \
  friend __device__ __forceinline__ Lane name(Lane x) { \
    if constexpr (std::is_integral_v<T>)                \
      return x;                                         \
    else                                                \
      return ::name(x.v);                               \
  }
  CT_LANE_ROUNDING(floor)
  CT_LANE_ROUNDING(ceil)
  CT_LANE_ROUNDING(trunc)
  CT_LANE_ROUNDING(rint)
#undef CT_LANE_ROUNDING
};

// In f64, as on the CPU: in f32 a quotient above 2^22 may be off by one.
__device__ __forceinline__ Lane<float> floor_divide(Lane<float> a, Lane<float> b) {
  return static_cast<float>(floor_divide(Lane<double>(a.v), Lane<double>(b.v)).v);
}

}  // namespace ct::map

#undef CT_LANE_COLD
