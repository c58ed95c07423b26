#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise/unary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Every forward kernel of the table for CUDA (ops/engine/map/map_cuda.cuh says how they run); the backward ones are
// in unary_backward.cu, to keep compile times short.

namespace ct {
namespace unary {

using namespace elementwise;

#define CT_UNARY(name, text, types, saved, samples, y, dx) void name##_backward_cuda(const Backward&);
#include <cotangent/ops/elementwise/unary_table.inc>
#undef CT_UNARY

namespace {
constexpr KernelEntry kEntries[] = {
#define CT_UNARY(name, text, types, saved, samples, y, dx) \
  {#name, forward_cuda<formulas::name##_y, has_floats(types), has_integers(types)>, name##_backward_cuda},
#include <cotangent/ops/elementwise/unary_table.inc>
#undef CT_UNARY
};
}  // namespace
}  // namespace unary

namespace cuda_kernels {
extern const KernelTable unary;
const KernelTable unary{ct::unary::kEntries, std::size(ct::unary::kEntries)};
}  // namespace cuda_kernels
}  // namespace ct
