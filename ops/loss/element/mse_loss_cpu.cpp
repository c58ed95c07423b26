#include <cotangent/ops/loss/element/element_loss_cpu.h>
#include <cotangent/ops/loss/element/mse_loss_internal.h>

namespace ct::mse_loss_kernels {
namespace {

void forward_cpu(const Forward& f) { loss::forward_cpu<SquaredError>(f, f.attrs<MseLossAttrs>().reduction); }
void backward_cpu(const Backward& b) {
  loss::backward_cpu<SquaredErrorGradients>(b, b.attrs<MseLossAttrs>().reduction);
}

}  // namespace
}  // namespace ct::mse_loss_kernels

CT_KERNELS(cpu, mse_loss, {"mse_loss", mse_loss_kernels::forward_cpu, mse_loss_kernels::backward_cpu})
