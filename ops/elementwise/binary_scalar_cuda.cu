#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Every kernel of the table of tensor-and-number ops for CUDA; apart to keep compile times short.

namespace ct::cuda_kernels {
using namespace elementwise;
using namespace binary::formulas;

struct ScalarFormulas : Table<void
#define CT_SCALAR(name, text, types, saved, samples, y, dx) \
  , Row<name##_y, has_integers(types)>, Row<name##_dx>
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) , Row<name##_y, has_integers(types)>
#include <cotangent/ops/elementwise/scalar_table.inc>
#undef CT_SCALAR
#undef CT_SCALAR_PREDICATE
                              > {
};
}  // namespace ct::cuda_kernels

#define CT_SCALAR(name, text, types, saved, samples, y, dx)                                                 \
  CT_KERNELS(cuda, name,                                                                                    \
             {#name, forward_cuda<name##_y, has_floats(types), has_integers(types), false, ScalarFormulas>, \
              unary_backward_cuda<name##_dx, ScalarFormulas>})
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) \
  CT_KERNELS(                                              \
      cuda, name,                                          \
      forward_only(#name,                                  \
                   forward_cuda<name##_y, has_floats(types), has_integers(types), true, ScalarFormulas>))
#include <cotangent/ops/elementwise/scalar_table.inc>
#undef CT_SCALAR
#undef CT_SCALAR_PREDICATE
