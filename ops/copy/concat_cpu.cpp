#include <cotangent/ops/copy/concat_internal.h>
#include <cotangent/ops/engine/walk/copy.h>

namespace ct {
namespace {

// Each input is one strided copy into its place; copy_cpu spreads a large one over the threads.
void join(const Forward& call, bool stacked) {
  ConcatParts parts(call.out(), call.attrs<ConcatAttrs>().axis, stacked);
  for (const Tensor* input : call.inputs) copy_cpu(parts.next(*input), *input);
}

void concat_forward_cpu(const Forward& call) { join(call, false); }
void stack_forward_cpu(const Forward& call) { join(call, true); }

}  // namespace
}  // namespace ct

CT_KERNELS(cpu, concat, {"concat", concat_forward_cpu, concat_gradients},
           {"stack", stack_forward_cpu, stack_gradients})
