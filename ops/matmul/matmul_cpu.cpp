#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/gemm/product.h>

// A product of stacks of matrices is the engine's (ops/engine/gemm): its plan, and this device's GEMM.

namespace ct {
namespace {

void matmul_forward_cpu(const Forward& f) { gemm::forward(f, gemm::cpu_backend); }
void matmul_backward_cpu(const Backward& b) { gemm::backward(b, gemm::cpu_backend); }

}  // namespace
}  // namespace ct

CT_KERNELS(cpu, matmul, {"matmul", matmul_forward_cpu, matmul_backward_cpu})
