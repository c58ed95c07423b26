#include <cotangent/core/device/runtime_internal.h>
#include <cotangent/nn/optim/multi_tensor_internal.h>

// Stubs of multi_tensor_cuda.cu and clip_grad_cuda.cu in a library without CUDA; nothing calls them there.

namespace ct::optim::internal {

using ct::detail::runtime::fail_without_cuda;

template <class Rule>
void apply_rule_cuda(const char* op, DType, std::span<const Entry>, const Rule&, const StepGate&) {
  fail_without_cuda(op);
}
#define CT_APPLY(rule, table) \
  template void apply_rule_cuda(const char*, DType, std::span<const Entry>, const rule&, const StepGate&);
CT_OPTIM_RULES(CT_APPLY)
#undef CT_APPLY

Tensor norm_cuda(const char* op, std::span<const Batch>, double, DType) { fail_without_cuda(op); }
void scale_cuda(const char* op, const Batch&, const Tensor&, double) { fail_without_cuda(op); }
void clamp_cuda(const char* op, const Batch&, double) { fail_without_cuda(op); }
void unscale_cuda(const char* op, const Batch&, const float*, float*) { fail_without_cuda(op); }
void update_scale_cuda(const char* op, float*, const float*, const ScaleRule&) { fail_without_cuda(op); }
void lerp_cuda(const char* op, DType, std::span<const Entry>, double) { fail_without_cuda(op); }

}  // namespace ct::optim::internal
