#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Every kernel of the table of tensor-and-number ops for CUDA; apart to keep compile times short.

namespace ct {
namespace binary {
namespace {

using namespace elementwise;

constexpr KernelEntry kScalarEntries[] = {
#define CT_SCALAR(name, text, types, saved, samples, y, dx)                                \
  {#name, forward_cuda<formulas::name##_y, has_floats(types), has_integers(types), false>, \
   unary_backward_cuda<formulas::name##_dx>},
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) \
  forward_only(#name, forward_cuda<formulas::name##_y, has_floats(types), has_integers(types), true>),
#include <cotangent/ops/elementwise/scalar_table.inc>
#undef CT_SCALAR
#undef CT_SCALAR_PREDICATE
};

}  // namespace
}  // namespace binary

namespace cuda_kernels {
extern const KernelTable binary_scalar;
const KernelTable binary_scalar{ct::binary::kScalarEntries, std::size(ct::binary::kScalarEntries)};
}  // namespace cuda_kernels
}  // namespace ct
