#include <cotangent/ops/loss/element/element_loss_plain.h>
#include <cotangent/ops/loss/element/mse_loss_internal.h>
#include <cotangent/ops/loss/element/mse_loss_plain.h>

// The plain kernels, oracles alone (the fast ones run in f64 as well): every element of a call by mse_loss_plain.h.

namespace ct::loss::mse {
namespace {

using namespace plain;

void forward_plain(const Forward& f) {
  const double *x = f.in(0).data<double>(), *t = f.in(1).data<double>();
  element_losses(f, f.attrs<MseLossAttrs>().reduction, [=](std::int64_t i) { return mse_loss(x[i], t[i]); });
}

void backward_plain(const Backward& b) {
  const double *x = b.in(0).data<double>(), *t = b.in(1).data<double>();
  element_gradients(
      b, b.attrs<MseLossAttrs>().reduction,
      [=](double g, std::int64_t i) { return mse_loss_dx(g, x[i], t[i]); },
      [=](double g, std::int64_t i) { return mse_loss_dt(g, x[i], t[i]); });
}

}  // namespace
}  // namespace ct::loss::mse

CT_KERNELS(oracle, mse_loss, {"mse_loss", loss::mse::forward_plain, loss::mse::backward_plain})
