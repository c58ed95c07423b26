#pragma once

#include <type_traits>

#include <cotangent/core/base/dtype.h>

// e^x and 2^x in kernels, one function for each accuracy. For .cu files.

namespace ct::gpu {

/// e^x to 2 ulp.
__device__ __forceinline__ float exp_full(float x) { return ::expf(x); }
__device__ __forceinline__ double exp_full(double x) { return ::exp(x); }

/// e^x by the special function unit, to 2 + 1.2 |x| ulp, in six instructions; in f64 there is none.
__device__ __forceinline__ float exp_fast(float x) { return __expf(x); }
__device__ __forceinline__ double exp_fast(double x) { return ::exp(x); }

/// a b + c, rounded once. A compiler that is left to choose contracts by what stands around a sum, and so the same text has other last
/// bits in another kernel.
__device__ __forceinline__ float product_sum(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double product_sum(double a, double b, double c) { return __fma_rn(a, b, c); }

/// 2^x in one instruction, to 2 ulp. Results below 2^-126 are 0; to keep them would take four more.
__device__ __forceinline__ float exp2_flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

/// e^x for results that are rounded to T: as exact as that is, and of 16 bits in two instructions.
template <class T>
__device__ __forceinline__ compute_t<T> exp_for(compute_t<T> x) {
  if constexpr (sizeof(T) == 2) {
    return exp2_flushed(x * kLog2E);
  } else {
    return exp_full(x);
  }
}

}  // namespace ct::gpu
