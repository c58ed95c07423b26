#include <cotangent/nn/optim/multi_tensor_internal.h>

// As ops/kernels_nocuda.cpp: in place of multi_tensor_cuda.cu and clip_grad_cuda.cu in a library without CUDA.

namespace ct::optim::internal {
namespace {
[[noreturn]] void missing(const char* op) {
  ct::detail::fail<DeviceError>(op,
                                "this library was built without CUDA; use the CPU, or build it with CUDA");
}
}  // namespace

template <class Rule>
void apply_rule_cuda(const char* op, DType, std::span<const Entry>, const Rule&, const StepGate&) {
  missing(op);
}
template void apply_rule_cuda(const char*, DType, std::span<const Entry>, const SgdRule&, const StepGate&);
template void apply_rule_cuda(const char*, DType, std::span<const Entry>, const AdamRule&, const StepGate&);

Tensor norm_cuda(const char* op, std::span<const Batch>, double, DType) { missing(op); }
void scale_cuda(const char* op, const Batch&, const Tensor&, double) { missing(op); }
void clamp_cuda(const char* op, const Batch&, double) { missing(op); }
void unscale_cuda(const char* op, const Batch&, const float*, float*) { missing(op); }
void update_scale_cuda(const char* op, float*, const float*, const ScaleRule&) { missing(op); }
void lerp_cuda(const char* op, DType, std::span<const Entry>, double) { missing(op); }

}  // namespace ct::optim::internal
