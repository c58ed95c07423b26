#include <cotangent/ops/norm_cuda.h>
#include <cotangent/ops/rms_norm/rms_norm_kernels.h>

namespace ct::rms_norm_kernels {

template <bool kAdd>
void forward_cuda(const Forward& f) {
  norms::forward_cuda<false, kAdd>(f);
}
template <bool kAdd>
void backward_cuda(const Backward& b) {
  norms::backward_cuda<false, kAdd>(b);
}

template void forward_cuda<false>(const Forward&);
template void forward_cuda<true>(const Forward&);
template void backward_cuda<false>(const Backward&);
template void backward_cuda<true>(const Backward&);

}  // namespace ct::rms_norm_kernels
