#include <cotangent/ops/loss/loss_cpu.h>
#include <cotangent/ops/loss/mse_loss_internal.h>

namespace ct {
namespace {

template <class T>
struct SquaredError {
  using P = loss::Pack<T>;
  static constexpr std::int64_t grain = 32768;
  CT_INLINE P value(std::int64_t, int, P x, P t) const { return (x - t) * (x - t); }
  // dx = 2 (x - t), and the opposite for t; the caller multiplies by g.
  CT_INLINE void gradient(std::int64_t, int, P x, P t, P& dx, P& dt) const {
    dx = (x - t) + (x - t);
    dt = -dx;
  }
};

}  // namespace

void mse_loss_forward_cpu(const Forward& f) {
  const Tensor &x = f.in(0), &t = f.in(1);
  visit_fast("mse_loss", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_forward(x.data<T>(), t.data<T>(), x.numel(), f.attrs<MseLossAttrs>().reduction,
                            f.out().data<T>(), SquaredError<T>{});
  });
}

void mse_loss_backward_cpu(const Backward& b) {
  const Tensor &x = b.in(0), &t = b.in(1), &g = b.grad();
  visit_fast("mse_loss", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_backward(x.data<T>(), t.data<T>(), g.data<T>(), x.numel(),
                             b.attrs<MseLossAttrs>().reduction, b.needs(0) ? b.grad_in(0).data<T>() : nullptr,
                             b.needs(1) ? b.grad_in(1).data<T>() : nullptr, SquaredError<T>{});
  });
}

}  // namespace ct

CT_KERNELS(cpu, mse_loss, {"mse_loss", mse_loss_forward_cpu, mse_loss_backward_cpu})
