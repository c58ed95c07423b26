#include <cotangent/ops/attention/attention_mma_launch_internal.h>
#include <cotangent/ops/attention/attention_mma_forward_internal.cuh>

namespace ct::attention::mma {

void forward_f16(const Problem& p) {
  visit_head_dim(p, [&]<int D>() { launch_forward<Half, D>(p); });
}

}  // namespace ct::attention::mma
