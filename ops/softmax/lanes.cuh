#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <cotangent/core/cuda/math.h>
#include <cotangent/ops/engine/rows/elements.cuh>
#include <cotangent/ops/engine/rows/share.cuh>

// Kernels of softmax, log_softmax and masked_softmax for rows in the registers of a warp. A captured step compiles this text anew, with
// formulas in the place of their load and store (core/op/around.h).

namespace ct::softmax_impl {
namespace {

template <class C>
constexpr C kMinusInf = -std::numeric_limits<C>::infinity();

// Whether a kernel computes the logarithm: where speed does not matter a call says it.
enum class Log { no, yes, either };
template <Log log, class Call>
__device__ __forceinline__ bool is_log(const Call& call) {
  return log == Log::either ? call.logarithm : log == Log::yes;
}

// Result of one element: its softmax, with scale = 1 / sum, or its log_softmax, with scale = log(sum).
template <class T, class C>
__device__ __forceinline__ C result_of(bool logarithm, C x, C max, C scale) {
  return logarithm ? x - max - scale : gpu::exp_for<T>(x - max) * scale;
}
template <class C>
__device__ __forceinline__ C scale_of(bool logarithm, C sum) {
  return logarithm ? log(sum) : C(1) / sum;
}

// Work on elements as they are read, for the forward kernels that take it: nothing, or a scale and a
// mask (masked_softmax). With an input that hides, a row that is hidden as a whole gives zeros and not NaN.
struct Plain {
  static constexpr bool hides = false;
  __device__ __forceinline__ std::int64_t row_offset(std::int64_t) const { return 0; }
  template <class C, int N>
  __device__ __forceinline__ void operator()(std::int64_t, std::int64_t, C (&)[N]) const {}
};

template <class T, class Input = Plain>
struct ForwardCall {
  bool logarithm;
  const T* x;
  T* y;
  Input input = {};
};
template <class T>
struct BackwardCall {
  bool logarithm;
  const T *g, *y;
  T* dx;
  compute_t<T> factor;  // what the argument of softmax was multiplied by before

  __device__ __forceinline__ compute_t<T> gradient(bool log, compute_t<T> g, compute_t<T> y,
                                                   compute_t<T> sum) const {
    return log ? g - gpu::exp_for<T>(y) * sum : y * (g - sum) * factor;
  }
};

template <Log log, int N, int Loads, class T, class Input, class Load, class Store>
__device__ __forceinline__ void forward_in_lanes(const ForwardCall<T, Input>& call, const rows::Extents& e,
                                                 int group, const Load& load, const Store& store) {
  using C = compute_t<T>;
  using Pack = gpu::Vector<T, N>;
  const bool logarithm = is_log<log>(call);
  const rows::LaneShare<N, Loads> share(e, group);
  const std::int64_t offset = call.input.row_offset(share.row);
  C v[Loads][N];
  C max = kMinusInf<C>;
#pragma unroll
  for (int i = 0; i < Loads * N; ++i) v[i / N][i % N] = kMinusInf<C>;
  share.each([&](int i, int at) {
    Pack x;
    load(x, call.x, share.start + at);
    x.to_compute(v[i]);
    call.input(offset, at, v[i]);
  });
#pragma unroll
  for (int i = 0; i < Loads * N; ++i) max = gpu::Larger{}(max, v[i / N][i % N]);
  max = gpu::warp_max(max, group);
  if (Input::hides && max == kMinusInf<C>) max = 0;
  C sum = 0;
#pragma unroll
  for (int i = 0; i < Loads * N; ++i) {
    C& element = v[i / N][i % N];
    const C e = gpu::exp_for<T>(element - max);
    if (!logarithm) element = e;
    // Lanes past the end hold -inf and add 0; where the whole row is -inf, the NaN is wanted.
    sum += e;
  }
  sum = gpu::warp_sum(sum, group);
  const C scale = Input::hides && sum == 0 ? C(0) : scale_of(logarithm, sum);
  share.each([&](int i, int at) {
#pragma unroll
    for (int j = 0; j < N; ++j) v[i][j] = logarithm ? v[i][j] - max - scale : v[i][j] * scale;
    store(Pack::from_compute(v[i]), call.y, share.start + at);
  });
}
template <Log log, class T, int N, int Loads, class Input>
__global__ void __launch_bounds__(128)
    lanes_forward(const __grid_constant__ ForwardCall<T, Input> call, rows::Extents e, int group) {
  forward_in_lanes<log, N, Loads>(call, e, group, rows::FromMemory{}, rows::ToMemory{});
}

template <Log log, int N, int Loads, class T, class Load, class Store>
__device__ __forceinline__ void backward_in_lanes(const BackwardCall<T>& call, const rows::Extents& e,
                                                  int group, const Load& load, const Store& store) {
  using C = compute_t<T>;
  using Pack = gpu::Vector<T, N>;
  const bool logarithm = is_log<log>(call);
  const rows::LaneShare<N, Loads> share(e, group);
  Pack g[Loads], y[Loads];
#pragma unroll
  for (int i = 0; i < Loads; ++i) g[i] = y[i] = Pack::filled(gpu::from_compute<T>(C(0)));
  share.each([&](int i, int at) {
    load(g[i], call.g, share.start + at);
    y[i] = Pack::load_streaming(call.y + share.start + at);
  });
  C sum = 0;
#pragma unroll
  for (int i = 0; i < Loads; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j)
      sum += gpu::to_compute(g[i][j]) * (logarithm ? C(1) : gpu::to_compute(y[i][j]));
  sum = gpu::warp_sum(sum, group);
  share.each([&](int i, int at) {
    C out[N];
#pragma unroll
    for (int j = 0; j < N; ++j)
      out[j] = call.gradient(logarithm, gpu::to_compute(g[i][j]), gpu::to_compute(y[i][j]), sum);
    store(Pack::from_compute(out), call.dx, share.start + at);
  });
}
template <Log log, class T, int N, int Loads>
__global__ void __launch_bounds__(128)
    lanes_backward(const __grid_constant__ BackwardCall<T> call, rows::Extents e, int group) {
  backward_in_lanes<log, N, Loads>(call, e, group, rows::FromMemory{}, rows::ToMemory{});
}

}  // namespace
}  // namespace ct::softmax_impl
