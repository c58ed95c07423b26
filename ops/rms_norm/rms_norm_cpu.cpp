#include <cotangent/ops/norm_cpu.h>
#include <cotangent/ops/rms_norm/rms_norm_kernels.h>

namespace ct::rms_norm_kernels {

template <bool kAdd>
void forward_cpu(const Forward& f) {
  norms::forward_cpu<false, kAdd>(f);
}
template <bool kAdd>
void backward_cpu(const Backward& b) {
  norms::backward_cpu<false, kAdd>(b);
}

template void forward_cpu<false>(const Forward&);
template void forward_cpu<true>(const Forward&);
template void backward_cpu<false>(const Backward&);
template void backward_cpu<true>(const Backward&);

}  // namespace ct::rms_norm_kernels
