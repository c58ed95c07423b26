#include <cotangent/ops/loss/element/element_loss_cuda.cuh>
#include <cotangent/ops/loss/element/mse_loss.cuh>

namespace ct::loss::mse {
namespace {

bool run_forward(const Forward& f, const ct::detail::Around* around) {
  return loss::forward_cuda<SquaredError>(f, f.attrs<MseLossAttrs>().reduction, around, "mse",
                                          []<class T>(TypeTag<T>) { return Loss<T>{}; });
}
void forward_cuda(const Forward& f) { run_forward(f, nullptr); }
void backward_cuda(const Backward& b) {
  loss::backward_cuda<SquaredErrorGradients>(b, b.attrs<MseLossAttrs>().reduction);
}

constexpr ct::detail::AroundRecord kAround{false, run_forward};

}  // namespace
}  // namespace ct::loss::mse

CT_KERNELS(cuda, mse_loss, {"mse_loss", loss::mse::forward_cuda, loss::mse::backward_cuda},
           forward_only("mse_loss around", hand_out<loss::mse::kAround>))
