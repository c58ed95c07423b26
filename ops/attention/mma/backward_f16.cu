#include <cotangent/ops/attention/mma/launch.h>
#include <cotangent/ops/attention/mma/backward.cuh>

namespace ct::attention::mma {

void backward_f16(const BackwardProblem& p) {
  visit_head_dim(p, [&]<int D>() { launch_backward<Half, D>(p); });
}

}  // namespace ct::attention::mma
