#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <limits>

#include <cotangent/core/cuda/math.h>
#include <cotangent/ops/softmax/softmax_internal.h>
#include <cotangent/ops/engine/rows/choose.cuh>
#include <cotangent/ops/engine/rows/online_softmax.cuh>

// The kernels of softmax, log_softmax and masked_softmax: each element is read once and written once, but in loop_*.
//
// - lanes_*: rows of up to 1024 elements, or of 384 if they are not whole 16-byte vectors. A group of 1 to 32
//   lanes holds a row in registers.
// - cluster_*: longer rows of whole 16-byte vectors. The row lies in the registers of a block, or of a
//   cluster of 2 to 8 blocks that exchange their maxima and sums through distributed shared memory, while
//   the next one is on its way to shared memory.
// - loop_*: what is left (odd or huge rows, another axis than the last, f64). The statistics in one pass, the result in
//   a second, out of L2.
//
// 16-bit types are computed in float; elements stay packed in registers and are converted where they are
// used. Backward has the same shapes with y and g in place of x.

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

template <Log log, class T, int N, int Loads, class Input>
__global__ void __launch_bounds__(128)
    lanes_forward(const __grid_constant__ ForwardCall<T, Input> call, rows::Extents e, int group) {
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
    Pack::load_streaming(call.x + share.start + at).to_compute(v[i]);
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
    Pack::from_compute(v[i]).store(call.y + share.start + at);
  });
}

template <Log log, class T, int N, int Loads>
__global__ void __launch_bounds__(128)
    lanes_backward(const __grid_constant__ BackwardCall<T> call, rows::Extents e, int group) {
  using C = compute_t<T>;
  using Pack = gpu::Vector<T, N>;
  const bool logarithm = is_log<log>(call);
  const rows::LaneShare<N, Loads> share(e, group);
  Pack g[Loads], y[Loads];
#pragma unroll
  for (int i = 0; i < Loads; ++i) g[i] = y[i] = Pack::filled(gpu::from_compute<T>(C(0)));
  share.each([&](int i, int at) {
    g[i] = Pack::load_streaming(call.g + share.start + at);
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
    Pack::from_compute(out).store(call.dx + share.start + at);
  });
}

// The larger of two words, each a number or, for 16 bits, a pair of them. Not NaN, unless both are.
template <class T>
__device__ __forceinline__ unsigned larger_word(unsigned a, unsigned b) {
  if constexpr (std::is_same_v<T, float>) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  } else {
    using Pair = std::conditional_t<std::is_same_v<T, BFloat16>, __nv_bfloat162, __half2>;
    const Pair two = __hmax2(*reinterpret_cast<const Pair*>(&a), *reinterpret_cast<const Pair*>(&b));
    return *reinterpret_cast<const unsigned*>(&two);
  }
}
// The largest element of some vectors.
template <class T, int Loads>
__device__ __forceinline__ float largest_of(const gpu::Vector<T> (&v)[Loads]) {
  unsigned max = gpu::Vector<T>::filled(gpu::from_compute<T>(kMinusInf<float>)).word.x;
#pragma unroll
  for (int i = 0; i < Loads; ++i) {
    const uint4 w = v[i].word;
    max = larger_word<T>(larger_word<T>(larger_word<T>(larger_word<T>(max, w.x), w.y), w.z), w.w);
  }
  if constexpr (std::is_same_v<T, float>) {
    return __uint_as_float(max);
  } else {
    float two[2];
    gpu::Vector<T, 2>{max}.to_compute(two);
    return fmaxf(two[0], two[1]);
  }
}
struct Max {  // not for NaN
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <bool logarithm, class T, int Loads>
__global__ void __launch_bounds__(rows::kClusterWarps * 32, 2)
    cluster_forward(const __grid_constant__ ForwardCall<T> call, rows::Extents e, int cluster) {
  const auto row = [&](const auto& share, std::int64_t start, int turn, auto& tensors) {
    gpu::Vector<T>(&v)[Loads] = tensors[0];
    const float max = share.combine(largest_of(v), kMinusInf<float>, Max{}, 2 * turn);
    // In f32 the exponentials take the place of the elements, and are not computed a second time.
    constexpr bool kept = std::is_same_v<T, float> && !logarithm;
    float sum = 0, element[gpu::Vector<T>::size];
#pragma unroll
    for (int i = 0; i < Loads; ++i) {
      v[i].unpack(element);
      for (float& x : element) {
        const float e = gpu::exp_for<T>(x - max);
        sum += e;
        if constexpr (kept) x = e;
      }
      if constexpr (kept) v[i] = gpu::Vector<T>::from_compute(element);
    }
    sum = share.combine(sum, 0.0f, gpu::Plus{}, 2 * turn + 1);
    const float scale = scale_of(logarithm, sum);
    share.store(v, call.y + start, [&](int, auto& elements) {
      for (float& x : elements) x = kept ? x * scale : result_of<T>(logarithm, x, max, scale);
    });
  };
  rows::walk_in_clusters<Loads>({call.x}, e, cluster, kMinusInf<float>, row);
}

template <bool logarithm, class T, int Loads>
__global__ void __launch_bounds__(rows::kClusterWarps * 32, Loads == 4 ? 2 : 1)
    cluster_backward(const __grid_constant__ BackwardCall<T> call, rows::Extents e, int cluster) {
  constexpr int n = gpu::Vector<T>::size;
  const auto row = [&](const auto& share, std::int64_t start, int turn, auto& tensors) {
    auto& [g, y] = tensors;
    float sum = 0, a[n], b[n];
#pragma unroll
    for (int i = 0; i < Loads; ++i) {
      g[i].unpack(a);
      if (!logarithm) y[i].unpack(b);
#pragma unroll
      for (int j = 0; j < n; ++j) sum += logarithm ? a[j] : a[j] * b[j];
    }
    sum = share.combine(sum, 0.0f, gpu::Plus{}, turn);
    share.store(g, call.dx + start, [&](int i, auto& elements) {
      y[i].unpack(b);
#pragma unroll
      for (int j = 0; j < n; ++j) elements[j] = call.gradient(logarithm, elements[j], b[j], sum);
    });
  };
  rows::walk_in_clusters<Loads>({call.g, call.y}, e, cluster, 0, row);
}

template <class T, class Input>
__global__ void __launch_bounds__(512)
    loop_forward(const __grid_constant__ ForwardCall<T, Input> call, rows::Extents e, int) {
  using C = compute_t<T>;
  const T* __restrict__ from = call.x;
  T* __restrict__ to = call.y;
  const rows::LoopShare share(e);
  const std::int64_t offset = call.input.row_offset(blockIdx.x);
  const auto load = [&](C(&v)[1], std::int64_t i, std::int64_t at) {
    v[0] = gpu::to_compute(from[at]);
    call.input(offset, i, v);
  };
  rows::OnlineSoftmax<C> seen;
  C v[1];
  share.each([&](std::int64_t i, std::int64_t at) {
    load(v, i, at);
    seen.add(v);
  });
  seen = share.combine(seen, gpu::Plus{});
  // Without a finite element there is no softmax: every element of the row is NaN, by 1 / 0 or log(0).
  const C scale = Input::hides && seen.exps == 0 ? C(0) : scale_of(call.logarithm, seen.exps);
  share.each([&](std::int64_t i, std::int64_t at) {
    load(v, i, at);
    to[at] = gpu::from_compute<T>(result_of<T>(call.logarithm, v[0], seen.max, scale));
  });
}

template <class T>
__global__ void __launch_bounds__(512)
    loop_backward(const __grid_constant__ BackwardCall<T> call, rows::Extents e, int) {
  using C = compute_t<T>;
  const T* __restrict__ g = call.g, * __restrict__ y = call.y;
  T* __restrict__ dx = call.dx;
  const rows::LoopShare share(e);
  C sum = 0;
  share.each([&](std::int64_t, std::int64_t at) {
    sum += gpu::to_compute(g[at]) * (call.logarithm ? C(1) : gpu::to_compute(y[at]));
  });
  sum = share.combine(sum, gpu::Plus{});
  share.each([&](std::int64_t, std::int64_t at) {
    dx[at] = gpu::from_compute<T>(
        call.gradient(call.logarithm, gpu::to_compute(g[at]), gpu::to_compute(y[at]), sum));
  });
}

// A row of up to 32 elements is so little work that one kernel serves softmax and log_softmax.
template <int N, int Loads>
constexpr bool kSmall = N == 1 && Loads == 1;

// See rows::run().
template <bool logarithm, class T, class Input = Plain>
struct ForwardKernels {
  static constexpr int kInputs = 1;
  static constexpr bool kClusters = !Input::hides;
  template <int N, int Loads>
  static constexpr Log log = kSmall<N, Loads> && !Input::hides ? Log::either
                             : logarithm                       ? Log::yes
                                                               : Log::no;
  template <int N, int Loads>
  static constexpr auto lanes() {
    return lanes_forward<log<N, Loads>, T, N, Loads, Input>;
  }
  template <int Loads>
  static constexpr auto cluster() {
    return cluster_forward<logarithm, T, Loads>;
  }
  static constexpr auto loop = loop_forward<T, Input>;
};
template <bool logarithm, class T>
struct BackwardKernels {
  static constexpr int kInputs = 2;
  static constexpr bool kClusters = true;
  template <int N, int Loads>
  static constexpr Log log = kSmall<N, Loads> ? Log::either
                             : logarithm      ? Log::yes
                                              : Log::no;
  template <int N, int Loads>
  static constexpr auto lanes() {
    return lanes_backward<log<N, Loads>, T, N, Loads>;
  }
  template <int Loads>
  static constexpr auto cluster() {
    return cluster_backward<logarithm, T, Loads>;
  }
  static constexpr auto loop = loop_backward<T>;
};

}  // namespace
}  // namespace ct::softmax_impl
