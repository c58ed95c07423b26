#include <cotangent/ops/loss/mse_loss_internal.h>
#include <cotangent/ops/loss/loss_cuda.cuh>

namespace ct {
namespace {

template <class C>
struct SquaredError {
  __device__ __forceinline__ C value(long long, C x, C t) const { return (x - t) * (x - t); }
  // dx = 2 (x - t), and the opposite for t; the caller multiplies by g.
  __device__ __forceinline__ void gradient(long long, C x, C t, C& dx, C& dt) const {
    dx = (x - t) + (x - t);
    dt = -dx;
  }
};

}  // namespace

void mse_loss_forward_cuda(const Forward& f) {
  const Tensor &x = f.in(0), &t = f.in(1);
  visit_floating("mse_loss", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_forward("mse_loss", x.data<T>(), t.data<T>(), x.numel(),
                            f.attrs<MseLossAttrs>().reduction, f.out().data<T>(),
                            SquaredError<compute_t<T>>{});
  });
}

void mse_loss_backward_cuda(const Backward& b) {
  const Tensor &x = b.in(0), &t = b.in(1), &g = b.grad();
  visit_floating("mse_loss", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_backward("mse_loss", x.data<T>(), t.data<T>(), g.data<T>(), x.numel(),
                             b.attrs<MseLossAttrs>().reduction, b.needs(0) ? b.grad_in(0).data<T>() : nullptr,
                             b.needs(1) ? b.grad_in(1).data<T>() : nullptr, SquaredError<compute_t<T>>{});
  });
}

}  // namespace ct

CT_KERNELS(cuda, mse_loss, {"mse_loss", mse_loss_forward_cuda, mse_loss_backward_cuda})
