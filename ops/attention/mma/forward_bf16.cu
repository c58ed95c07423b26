#include <cotangent/ops/attention/mma/launch.h>
#include <cotangent/ops/attention/mma/forward.cuh>

namespace ct::attention::mma {

void forward_bf16(const Problem& p) {
  visit_head_dim(p, [&]<int D>() { launch_forward<BFloat16, D>(p); });
}

}  // namespace ct::attention::mma
