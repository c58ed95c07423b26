#include <cotangent/ops/loss/element/mse_loss_internal.h>
#include <cotangent/ops/loss/element/element_loss_cuda.cuh>

namespace ct::mse_loss_kernels {
namespace {

void forward_cuda(const Forward& f) {
  loss::forward_cuda<SquaredError>(f, f.attrs<MseLossAttrs>().reduction);
}
void backward_cuda(const Backward& b) {
  loss::backward_cuda<SquaredErrorGradients>(b, b.attrs<MseLossAttrs>().reduction);
}

}  // namespace
}  // namespace ct::mse_loss_kernels

CT_KERNELS(cuda, mse_loss, {"mse_loss", mse_loss_kernels::forward_cuda, mse_loss_kernels::backward_cuda})
