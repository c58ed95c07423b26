#include <cotangent/ops/loss/element/bce_with_logits.cuh>
#include <cotangent/ops/loss/element/element_loss_cuda.cuh>

namespace ct::loss::bce {
namespace {

bool run_forward(const Forward& f, const ct::detail::Around* around) {
  const Shape& shape = f.in(0).shape();
  const CyclicWeight weight(f.in(2), shape), pos_weight(f.in(3), shape);
  return loss::forward_cuda<Bce>(f, f.attrs<BceWithLogitsAttrs>().reduction, around, "bce",
                                 [&]<class T>(TypeTag<T>) {
                                   return Loss<T>{Cycle<T>(weight), Cycle<T>(pos_weight)};
                                 });
}
void forward_cuda(const Forward& f) { run_forward(f, nullptr); }
void backward_cuda(const Backward& b) {
  loss::backward_cuda<BceGradients>(b, b.attrs<BceWithLogitsAttrs>().reduction);
}

constexpr ct::detail::AroundRecord kAround{false, run_forward};

}  // namespace
}  // namespace ct::loss::bce

CT_KERNELS(cuda, bce_with_logits, {"bce_with_logits", loss::bce::forward_cuda, loss::bce::backward_cuda},
           forward_only("bce_with_logits around", hand_out<loss::bce::kAround>))
