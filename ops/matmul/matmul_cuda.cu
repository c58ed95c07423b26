#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/gemm/product.h>

// A product of stacks of matrices is the engine's (ops/engine/gemm): its plan, and this device's GEMM.

namespace ct {
namespace {

void matmul_forward_cuda(const Forward& f) { gemm::forward(f, gemm::cuda_backend); }
void matmul_backward_cuda(const Backward& b) { gemm::backward(b, gemm::cuda_backend); }

}  // namespace
}  // namespace ct

CT_KERNELS(cuda, matmul, {"matmul", matmul_forward_cuda, matmul_backward_cuda})
