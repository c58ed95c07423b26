#include <cotangent/ops/loss/element/mse_loss_internal.h>
#include <cotangent/ops/loss/element/element_loss_cuda.cuh>

namespace ct::loss::mse {
namespace {

void forward_cuda(const Forward& f) {
  loss::forward_cuda<SquaredError>(f, f.attrs<MseLossAttrs>().reduction);
}
void backward_cuda(const Backward& b) {
  loss::backward_cuda<SquaredErrorGradients>(b, b.attrs<MseLossAttrs>().reduction);
}

}  // namespace
}  // namespace ct::loss::mse

CT_KERNELS(cuda, mse_loss, {"mse_loss", loss::mse::forward_cuda, loss::mse::backward_cuda})
