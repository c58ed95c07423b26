#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <cotangent/core/cuda/block_reduce.h>
#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/math.h>

// What the kernels of softmax and log_softmax share. For softmax_cuda.cu only.

namespace ct::softmax_kernels {
namespace {

template <class C>
constexpr C kMinusInf = -std::numeric_limits<C>::infinity();

using gpu::exp_for;

// The running maximum and the sum of exponentials relative to it; a NaN ends up in the sum.
template <class C>
struct Stats {
  C max, sum;
};
template <class C>
__device__ __forceinline__ Stats<C> stats_of(C v) {
  if (v != v) return {kMinusInf<C>, v};
  return {v, v == kMinusInf<C> ? C(0) : C(1)};
}
template <class T, class C>
__device__ __forceinline__ Stats<C> join(const Stats<C>& a, const Stats<C>& b) {
  const C max = b.max > a.max ? b.max : a.max;
  // Where nothing but -inf was seen, the sum is 0, or NaN, whatever it is relative to.
  const C fa = a.max == max ? C(1) : a.max == kMinusInf<C> ? a.sum : exp_for<T>(a.max - max);
  const C fb = b.max == max ? C(1) : b.max == kMinusInf<C> ? b.sum : exp_for<T>(b.max - max);
  return {max, a.sum * fa + b.sum * fb};
}

// Of one element: its softmax, with scale = 1 / sum, or its log_softmax, with scale = log(sum).
template <class T, class C>
__device__ __forceinline__ C result_of(bool logarithm, C x, C max, C scale) {
  return logarithm ? x - max - scale : exp_for<T>(x - max) * scale;
}
template <class C>
__device__ __forceinline__ C scale_of(bool logarithm, C sum) {
  return logarithm ? log(sum) : C(1) / sum;
}
// `factor` is what the argument of softmax was multiplied by before.
template <class T, class C>
__device__ __forceinline__ C gradient_of(bool logarithm, C g, C y, C sum, C factor) {
  return logarithm ? g - exp_for<T>(y) * sum : y * (g - sum) * factor;
}

// What is done to elements as they are read, by those forward kernels that take it: nothing, or a scale and a
// mask (ops/softmax). Of an input that hides, a row that is hidden as a whole gives zeros and not NaN.
struct Plain {
  static constexpr bool hides = false;
  __device__ __forceinline__ std::int64_t row_offset(std::int64_t) const { return 0; }
  template <class C, int N>
  __device__ __forceinline__ void operator()(std::int64_t, std::int64_t, C (&)[N]) const {}
};

}  // namespace
}  // namespace ct::softmax_kernels
