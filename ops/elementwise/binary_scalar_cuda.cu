#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Every kernel of the table of tensor-and-number ops for CUDA; apart to keep compile times short.

namespace ct::cuda_kernels {
using namespace elementwise;
using namespace binary::formulas;
}  // namespace ct::cuda_kernels

#define CT_SCALAR(name, text, types, saved, samples, y, dx)                                 \
  CT_KERNELS(cuda, name,                                                                    \
             {#name, forward_cuda<name##_y, has_floats(types), has_integers(types), false>, \
              unary_backward_cuda<name##_dx>})
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) \
  CT_KERNELS(cuda, name,                                   \
             forward_only(#name, forward_cuda<name##_y, has_floats(types), has_integers(types), true>))
#include <cotangent/ops/elementwise/scalar_table.inc>
#undef CT_SCALAR
#undef CT_SCALAR_PREDICATE
