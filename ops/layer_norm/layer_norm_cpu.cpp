#include <cotangent/ops/layer_norm/layer_norm_kernels.h>
#include <cotangent/ops/norm_cpu.h>

namespace ct::layer_norm_kernels {

template <bool kAdd>
void forward_cpu(const Forward& f) {
  norms::forward_cpu<true, kAdd>(f);
}
template <bool kAdd>
void backward_cpu(const Backward& b) {
  norms::backward_cpu<true, kAdd>(b);
}

template void forward_cpu<false>(const Forward&);
template void forward_cpu<true>(const Forward&);
template void backward_cpu<false>(const Backward&);
template void backward_cpu<true>(const Backward&);

}  // namespace ct::layer_norm_kernels
