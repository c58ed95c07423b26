#include <cotangent/ops/attention/attention_mma_launch_internal.h>
#include <cotangent/ops/attention/attention_mma_forward_internal.cuh>

namespace ct::attention::mma {

void forward_bf16(const Problem& p) {
  visit_head_dim(p, [&]<int D>() { launch_forward<BFloat16, D>(p); });
}

}  // namespace ct::attention::mma
