#pragma once

#include <cotangent/ops/engine/map/lane.cuh>
#include <cotangent/ops/engine/rows/elements.cuh>
#include <cotangent/ops/loss/loss_cuda.cuh>

// The sum of a loss of elements on a GPU. A captured step compiles this text anew, with formulas in the place of the load of x
// (core/op/around.h).

namespace ct::loss {

/// The sum of loss(i, x, t). Elements are read 16 bytes at a time as far as `vectors` says, which is 0 where the tensors
/// are not aligned.
template <class T, class Loss>
struct SumCall {
  const T *x, *t;
  long long n, vectors;
  Loss loss;
  Sums<T> sums;
};

template <class T, class Loss, class Load>
__device__ __forceinline__ void sum_elements(const SumCall<T, Loss>& call, const Load& load) {
  using C = compute_t<T>;
  using X = map::Lane<C>;
  using Vec = gpu::Vector<T>;
  C sum = 0;
  const auto add = [&](long long i, T a, T b) {
    sum += call.loss(i, X(gpu::to_compute(a)), X(gpu::to_compute(b))).v;
  };
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long long v = first; v < call.vectors; v += step) {
    Vec a;
    load(a, call.x, v * Vec::size);
    const Vec b = Vec::load_streaming(call.t + v * Vec::size);
#pragma unroll
    for (int q = 0; q < Vec::size; ++q) add(v * Vec::size + q, a[q], b[q]);
  }
  for (long long i = call.vectors * Vec::size + first; i < call.n; i += step) {
    gpu::Vector<T, 1> a;
    load(a, call.x, i);
    add(i, a[0], call.t[i]);
  }
  call.sums.finish(sum, 0);
}
template <class T, class Loss>
__global__ void __launch_bounds__(kReduceThreads) sum_kernel(const __grid_constant__ SumCall<T, Loss> call) {
  gpu::wait_for_previous();
  sum_elements(call, rows::FromMemory{});
}

/// A loss without weights, as it is summed.
template <class F>
struct Unweighted {
  template <class X>
  __device__ __forceinline__ X operator()(long long, X x, X t) const {
    return F::eval(x, t, X(0), X(0));
  }
};

}  // namespace ct::loss
