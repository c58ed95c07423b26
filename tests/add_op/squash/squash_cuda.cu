#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/op/op_def.h>

namespace ct {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void forward_kernel(const T* x, T* y, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const auto v = gpu::to_compute(x[i]);
  y[i] = gpu::from_compute<T>(v / (1 + fabs(v)));
}

// dx = g / (1 + |x|)^2
template <class T>
__global__ void backward_kernel(const T* x, const T* g, T* dx, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const auto d = 1 + fabs(gpu::to_compute(x[i]));
  dx[i] = gpu::from_compute<T>(gpu::to_compute(g[i]) / (d * d));
}

void squash_forward(const Forward& f) {
  const Tensor& x = f.in(0);
  visit_floating(f.op.name, x.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch(f.op.name, forward_kernel<T>, gpu::blocks_for(f.op.name, x.numel(), kThreads), kThreads, 0,
                x.data<T>(), f.out().data<T>(), x.numel());
  });
}

void squash_backward(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor &x = b.in(0), &g = b.grad();
  visit_floating(b.op.name, x.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch(b.op.name, backward_kernel<T>, gpu::blocks_for(b.op.name, x.numel(), kThreads), kThreads, 0,
                x.data<T>(), g.data<T>(), b.grad_in(0).data<T>(), x.numel());
  });
}

}  // namespace
}  // namespace ct

CT_KERNELS(cuda, squash, {"squash", squash_forward, squash_backward})
