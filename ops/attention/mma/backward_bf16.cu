#include <cotangent/ops/attention/mma/launch.h>
#include <cotangent/ops/attention/mma/backward.cuh>

namespace ct::attention::mma {

void backward_bf16(const BackwardProblem& p) {
  visit_head_dim(p, [&]<int D>() { launch_backward<BFloat16, D>(p); });
}

}  // namespace ct::attention::mma
