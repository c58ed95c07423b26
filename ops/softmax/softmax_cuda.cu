#include <cotangent/ops/softmax/rows_internal.h>
#include <cotangent/ops/softmax/rows.cuh>

// softmax and log_softmax on CUDA: the kernels are in rows.cuh.

namespace ct::softmax_impl {
namespace {

template <bool logarithm, class T>
void run_backward(const char* op, const T* g, const T* y, T* dx, const Extents& e, double factor) {
  const bool aligned = gpu::is_aligned(g, 16) && gpu::is_aligned(y, 16) && gpu::is_aligned(dx, 16);
  const BackwardCall<T> call{logarithm, g, y, dx, static_cast<compute_t<T>>(factor)};
  rows::run<T>(op, BackwardKernels<logarithm, T>{}, call, e, aligned);
}

}  // namespace

template <bool logarithm>
void forward_cuda(const Forward& f) {
  with_forward(f, [&]<class T>(const T* x, T* y, const Extents& e) {
    const bool aligned = gpu::is_aligned(x, 16) && gpu::is_aligned(y, 16);
    rows::run<T>(f.op.name, ForwardKernels<logarithm, T>{}, ForwardCall<T>{logarithm, x, y}, e, aligned);
  });
}

template <bool logarithm>
void backward_cuda(const Backward& b) {
  with_backward(b, [&]<class T>(const T* g, const T* y, T* dx, const Extents& e) {
    run_backward<logarithm>(b.op.name, g, y, dx, e, 1);
  });
}

void gradient_cuda(const char* op, const Tensor& g, const Tensor& y, const Tensor& dx, double factor) {
  with_gradient(op, g, y, dx, -1, [&]<class T>(const T* from, const T* of, T* to, const Extents& e) {
    run_backward<false>(op, from, of, to, e, factor);
  });
}

}  // namespace ct::softmax_impl

CT_KERNELS(cuda, softmax, {"softmax", softmax_impl::forward_cuda<false>, softmax_impl::backward_cuda<false>},
           {"log_softmax", softmax_impl::forward_cuda<true>, softmax_impl::backward_cuda<true>})
