#include <cotangent/ops/attention/mma/hopper/hopper.h>
#include <cotangent/ops/attention/mma/launch.h>
#include <cotangent/ops/attention/mma/backward.cuh>

namespace ct::attention::mma {

Workspace workspace(const BackwardProblem& p) {
#ifdef COTANGENT_SM90A
  if (hopper_takes_backward(p)) return hopper_workspace(p);
#endif
  Workspace w;
  const std::int64_t heads = std::int64_t{p.batch} * p.heads;
  w.row_terms = 2 * heads * p.queries * static_cast<std::int64_t>(sizeof(float));
  visit_head_dim(p, [&]<int D>() {
    using Shape = BackwardShape<D>;
    const std::int64_t blocks = Shape::slices * heads * gpu::ceil_div(p.queries, Shape::query_block);
    w.partial_q = blocks * Shape::query_block * Shape::slice * static_cast<std::int64_t>(sizeof(float));
    w.turns = (blocks + 2) * static_cast<std::int64_t>(sizeof(int));
  });
  return w;
}

void run_forward(const Problem& p) {
  const bool brain = p.dtype == bf16;
#ifdef COTANGENT_SM90A
  if (hopper_takes(p)) return brain ? hopper_forward_bf16(p) : hopper_forward_f16(p);
#endif
  brain ? forward_bf16(p) : forward_f16(p);
}

void run_backward(const BackwardProblem& p) {
  const bool brain = p.dtype == bf16;
#ifdef COTANGENT_SM90A
  if (hopper_takes_backward(p)) return brain ? hopper_backward_bf16(p) : hopper_backward_f16(p);
#endif
  brain ? backward_bf16(p) : backward_f16(p);
}

}  // namespace ct::attention::mma
