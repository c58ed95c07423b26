#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/ops/engine/gemm/product.h>
#include <cotangent/ops/engine/random/fill.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/engine_ops_internal.h>

// A library without CUDA has these in place of what host files call on CUDA tensors. Nothing gets here: no tensor
// without CUDA is on a GPU.

namespace ct {
namespace {
[[noreturn]] void no_cuda(const char* op) {
  detail::fail<DeviceError>(op, "this library was built without CUDA; use the CPU, or build it with CUDA");
}
}  // namespace

void copy_cuda(const Tensor&, const Tensor&) { no_cuda("copy"); }
void fill_cuda(const Tensor&, const Scalar&) { no_cuda("fill"); }

namespace reduction {
void sum_cuda(const Tensor&, AxisMask, const Tensor&, double, bool) { no_cuda("sum"); }
}  // namespace reduction

namespace detail {
bool all_finite_cuda(const Tensor&) { no_cuda("all_finite"); }
void sequence_cuda(const Tensor&, const Sequence&) { no_cuda("arange"); }
void random_cuda(const Tensor&, const Draw&) { no_cuda("rand"); }
}  // namespace detail

}  // namespace ct
