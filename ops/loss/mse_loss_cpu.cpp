#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/loss/loss_cpu.h>
#include <cotangent/ops/loss/mse_loss_internal.h>

namespace ct {
namespace {

template <class T>
struct SquaredError {
  using P = loss::Pack<T>;
  static constexpr std::int64_t grain = 32768;
  CT_INLINE P value(std::int64_t, int, P x, P y) const { return (x - y) * (x - y); }
  // d(x - y)^2/dx = 2 (x - y), and the opposite for y.
  CT_INLINE void gradient(std::int64_t, int, P x, P y, P& dx, P& dy) const {
    dx = (x - y) + (x - y);
    dy = -dx;
  }
};

}  // namespace

void mse_loss_forward_cpu(const Forward& f) {
  const Tensor x = packed(f.in(0)), y = packed(f.in(1));
  visit_floating("mse_loss", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_forward(x.data<T>(), y.data<T>(), x.numel(), f.attrs<MseLossAttrs>().reduction,
                            f.out().data<T>(), SquaredError<T>{});
  });
}

void mse_loss_backward_cpu(const Backward& b) {
  const Tensor x = packed(b.in(0)), y = packed(b.in(1)), g = packed(b.grad());
  visit_floating("mse_loss", x.dtype(), [&]<class T>(TypeTag<T>) {
    loss::pointwise_backward(x.data<T>(), y.data<T>(), g.data<T>(), x.numel(),
                             b.attrs<MseLossAttrs>().reduction, b.needs(0) ? b.grad_in(0).data<T>() : nullptr,
                             b.needs(1) ? b.grad_in(1).data<T>() : nullptr, SquaredError<T>{});
  });
}

}  // namespace ct

CT_KERNELS(cpu, mse_loss, {"mse_loss", mse_loss_forward_cpu, mse_loss_backward_cpu})
