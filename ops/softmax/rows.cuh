#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <string>

#include <cotangent/core/cuda/math.h>
#include <cotangent/ops/softmax/softmax_internal.h>
#include <cotangent/ops/engine/rows/choose.cuh>
#include <cotangent/ops/engine/rows/online_softmax.cuh>
#include <cotangent/ops/softmax/lanes.cuh>

// The kernels of softmax, log_softmax and masked_softmax: each element is read once and written once, but in loop_*.
//
// - lanes_*: rows of up to 1024 elements, or of 384 if they are not whole 16-byte vectors. A group of 1 to 32
//   lanes holds a row in registers (lanes.cuh).
// - cluster_*: longer rows of whole 16-byte vectors. The row lies in the registers of a block, or of a
//   cluster of 2 to 8 blocks that exchange their maxima and sums through distributed shared memory, while
//   the next one is on its way to shared memory.
// - loop_*: what is left (odd or huge rows, another axis than the last, f64). The statistics in one pass, the result in
//   a second, out of L2.
//
// 16-bit types are computed in float; elements stay packed in registers and are converted where they are
// used. Backward has the same shapes with y and g in place of x.

extern "C" [[gnu::visibility("hidden")]] const char cotangent_softmax_lanes[];

namespace ct::softmax_impl {
namespace {

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

// The text of lanes.cuh (lanes_text_cuda.cpp), and that of one of its kernels.
template <class T>
detail::KernelText text_of(bool forward, Log log, int n, int loads) {
  return {cotangent_softmax_lanes,
          std::string("softmax_impl::") + (forward ? "forward" : "backward") +
              "_in_lanes<softmax_impl::Log(" + std::to_string(static_cast<int>(log)) + "), " +
              std::to_string(n) + ", " + std::to_string(loads) + ">(a.call, a.extents, a.group, load, store)",
          std::string("rows::InLanes<softmax_impl::") + (forward ? "Forward" : "Backward") + "Call<" +
              detail::type_text<T>() + ">>",
          n};
}

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
  template <int N, int Loads>
  static detail::KernelText text() {
    return text_of<T>(true, log<N, Loads>, N, Loads);
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
  template <int N, int Loads>
  static detail::KernelText text() {
    return text_of<T>(false, log<N, Loads>, N, Loads);
  }
  template <int Loads>
  static constexpr auto cluster() {
    return cluster_backward<logarithm, T, Loads>;
  }
  static constexpr auto loop = loop_backward<T>;
};

}  // namespace
}  // namespace ct::softmax_impl
