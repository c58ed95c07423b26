#pragma once

#include <cotangent/ops/engine/map/map_cuda.cuh>
#include <cotangent/ops/loss/loss_cuda.cuh>

// Losses that compare two tensors element by element on a GPU; the twin of element_loss_cpu.h.

namespace ct::loss {

// The sum of loss(i, x, t). Elements are read 16 bytes at a time as far as `vectors` says, which is 0 where the tensors
// are not aligned.
template <class T, class Loss>
__global__ void __launch_bounds__(kReduceThreads)
    sum_kernel(const T* x, const T* t, long long n, long long vectors, Loss loss, Sums<T> sums) {
  using C = compute_t<T>;
  using X = map::Lane<C>;
  using Vec = gpu::Vector<T>;
  C sum = 0;
  const auto add = [&](long long i, T a, T b) {
    sum += loss(i, X(gpu::to_compute(a)), X(gpu::to_compute(b))).v;
  };
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long long v = first; v < vectors; v += step) {
    const Vec a = Vec::load_streaming(x + v * Vec::size), b = Vec::load_streaming(t + v * Vec::size);
#pragma unroll
    for (int q = 0; q < Vec::size; ++q) add(v * Vec::size + q, a[q], b[q]);
  }
  for (long long i = vectors * Vec::size + first; i < n; i += step) add(i, x[i], t[i]);
  sums.finish(sum, 0);
}

/// The forward kernel of a loss by formula F. loss_of(TypeTag<T>) gives its losses as they are summed.
template <class F, class LossOf>
void forward_cuda(const Forward& f, Reduction reduction, const LossOf& loss_of) {
  if (reduction == Reduction::none) return map::forward_cuda<F, true, false>(f);
  visit_floating(f.op.name, f.out().dtype(), [&]<class T>(TypeTag<T> type) {
    const T *x = f.in(0).data<T>(), *t = f.in(1).data<T>();
    const long long n = f.in(0).numel();
    const long long vectors = gpu::is_aligned(x, 16) && gpu::is_aligned(t, 16) ? n / gpu::Vector<T>::size : 0;
    const auto loss = loss_of(type);
    const compute_t<T> divisor = reduction == Reduction::mean ? static_cast<compute_t<T>>(n) : 1;
    reduce<T>(f.op.name, sum_blocks(n), true, {nullptr, divisor, f.out().data<T>()},
              [&](unsigned blocks, const Sums<T>& sums) {
                gpu::launch(f.op.name, sum_kernel<T, std::remove_cv_t<decltype(loss)>>, blocks,
                            kReduceThreads, 0, x, t, n, vectors, loss, sums);
              });
  });
}
/// A loss without weights, as it is summed.
template <class F>
struct Unweighted {
  template <class X>
  __device__ __forceinline__ X operator()(long long, X x, X t) const {
    return F::eval(x, t, X(0), X(0));
  }
};
template <class F>
void forward_cuda(const Forward& f, Reduction reduction) {
  forward_cuda<F>(f, reduction, [](auto) { return Unweighted<F>{}; });
}

/// The backward kernel, from formula F of g, x, t and what else there is, with p = 1, or 1 / n for a mean.
template <class F>
void backward_cuda(const Backward& b, Reduction reduction) {
  const Shape& shape = b.in_meta(0).shape;
  const double p = reduction == Reduction::mean ? 1 / static_cast<double>(numel(shape)) : 1;
  map::joint_gradients<F>(b, b.grad(), shape, [&](auto outputs, auto inputs) {
    map::run_cuda(b.op.name, map::value_kernels<F, true, false>(), outputs, inputs, {p, 0});
  });
}

}  // namespace ct::loss
