#include <cotangent/ops/loss/element/element_loss_cpu.h>
#include <cotangent/ops/loss/element/mse_loss_internal.h>

namespace ct::loss::mse {
namespace {

void forward_cpu(const Forward& f) { loss::forward_cpu<SquaredError>(f, f.attrs<MseLossAttrs>().reduction); }
void backward_cpu(const Backward& b) {
  loss::backward_cpu<SquaredErrorGradients>(b, b.attrs<MseLossAttrs>().reduction);
}

}  // namespace
}  // namespace ct::loss::mse

CT_KERNELS(cpu, mse_loss, {"mse_loss", loss::mse::forward_cpu, loss::mse::backward_cpu})
