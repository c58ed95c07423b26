#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/unary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// The kernels of cold lines for CUDA, forward and backward: one for each compute type, which knows them all.

namespace ct::cuda_kernels {
using namespace map;
using namespace elementwise::unary::formulas;

struct ColdUnary : Table<void
#define CT_UNARY(...)
#define CT_UNARY_COLD(name, text, types, saved, samples, y, dx) \
  , Row<name##_y, has_integers(types)>, Row<name##_dx>
#include <cotangent/ops/elementwise/unary_table.inc>
                         > {
};
}  // namespace ct::cuda_kernels

#define CT_UNARY(...)
#define CT_UNARY_COLD(name, text, types, saved, samples, y, dx)                                        \
  CT_KERNELS(cuda, name,                                                                               \
             {#name, forward_cuda<name##_y, has_floats(types), has_integers(types), false, ColdUnary>, \
              unary_backward_cuda<name##_dx, ColdUnary>})
#include <cotangent/ops/elementwise/unary_table.inc>
