#include <cotangent/ops/attention/mma/hopper/forward.cuh>

namespace ct::attention::mma {

void hopper_forward_f16(const Problem& p) {
  if (p.head_dim <= 64 && p.value_dim <= 64) return launch_hopper_forward<Half, 64, 3>(p);
  launch_hopper_forward<Half, 128, 2>(p);
}

}  // namespace ct::attention::mma
