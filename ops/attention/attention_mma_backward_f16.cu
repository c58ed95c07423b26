#include <cotangent/ops/attention/attention_mma_launch_internal.h>
#include <cotangent/ops/attention/attention_mma_backward_internal.cuh>

namespace ct::attention::mma {

void backward_f16(const BackwardProblem& p) {
  visit_head_dim(p, [&]<int D>() { launch_backward<Half, D>(p); });
}

}  // namespace ct::attention::mma
