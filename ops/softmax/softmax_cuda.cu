#include <cotangent/ops/softmax/rows_internal.h>
#include <cotangent/ops/softmax/rows.cuh>

// softmax and log_softmax on CUDA: the kernels are in rows.cuh.

namespace ct::softmax_impl {
namespace {

template <bool logarithm, class T>
bool run_backward(const char* op, const T* g, const T* y, T* dx, const Extents& e, double factor,
                  const detail::Around* around = nullptr) {
  const bool aligned = gpu::is_aligned(g, 16) && gpu::is_aligned(y, 16) && gpu::is_aligned(dx, 16);
  const BackwardCall<T> call{logarithm, g, y, dx, static_cast<compute_t<T>>(factor)};
  return rows::run<T>(op, BackwardKernels<logarithm, T>{}, call, e, aligned, around);
}

template <bool logarithm>
bool run_forward(const Forward& f, const detail::Around* around) {
  bool done = false;
  with_forward(f, [&]<class T>(const T* x, T* y, const Extents& e) {
    const bool aligned = gpu::is_aligned(x, 16) && gpu::is_aligned(y, 16);
    done = rows::run<T>(f.op.name, ForwardKernels<logarithm, T>{}, ForwardCall<T>{logarithm, x, y}, e,
                        aligned, around);
  });
  return done;
}
template <bool logarithm>
bool run_backward(const Backward& b, const detail::Around* around) {
  bool done = false;
  with_backward(b, [&]<class T>(const T* g, const T* y, T* dx, const Extents& e) {
    done = run_backward<logarithm>(b.op.name, g, y, dx, e, 1, around);
  });
  return done;
}
template <bool logarithm>
constexpr detail::AroundRecord kAround{true, run_forward<logarithm>, run_backward<logarithm>};

}  // namespace

template <bool logarithm>
void forward_cuda(const Forward& f) {
  run_forward<logarithm>(f, nullptr);
}

template <bool logarithm>
void backward_cuda(const Backward& b) {
  run_backward<logarithm>(b, nullptr);
}

void gradient_cuda(const char* op, const Tensor& g, const Tensor& y, const Tensor& dx, double factor) {
  with_gradient(op, g, y, dx, -1, [&]<class T>(const T* from, const T* of, T* to, const Extents& e) {
    run_backward<false>(op, from, of, to, e, factor);
  });
}

}  // namespace ct::softmax_impl

CT_KERNELS(cuda, softmax, {"softmax", softmax_impl::forward_cuda<false>, softmax_impl::backward_cuda<false>},
           {"log_softmax", softmax_impl::forward_cuda<true>, softmax_impl::backward_cuda<true>},
           forward_only("softmax around", hand_out<softmax_impl::kAround<false>>),
           forward_only("log_softmax around", hand_out<softmax_impl::kAround<true>>))
