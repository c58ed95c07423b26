#include <cotangent/ops/attention/mma/hopper/backward.cuh>

namespace ct::attention::mma {

void hopper_backward_f16(const BackwardProblem& p) {
  if (p.head_dim <= 64 && p.value_dim <= 64) return launch_hopper_backward<Half, 64>(p);
  launch_hopper_backward<Half, 128>(p);
}

}  // namespace ct::attention::mma
