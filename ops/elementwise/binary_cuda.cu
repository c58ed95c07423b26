#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Every kernel of the table of two-tensor ops for CUDA (ops/engine/map/map_cuda.cuh says how they run).

namespace ct {
namespace binary {
namespace {

using namespace elementwise;

constexpr KernelEntry kEntries[] = {
#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db)                 \
  {#name, forward_cuda<formulas::name##_y, has_floats(types), has_integers(types), false>, \
   binary_backward_cuda<formulas::name##_da, formulas::name##_db>},
#define CT_PREDICATE(name, text, types, samples, y) \
  forward_only(#name, forward_cuda<formulas::name##_y, has_floats(types), has_integers(types), true>),
#include <cotangent/ops/elementwise/binary_table.inc>
#undef CT_BINARY
#undef CT_PREDICATE
};

}  // namespace
}  // namespace binary

namespace cuda_kernels {
extern const KernelTable binary;
const KernelTable binary{ct::binary::kEntries, std::size(ct::binary::kEntries)};
}  // namespace cuda_kernels
}  // namespace ct
