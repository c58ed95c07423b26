#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Every kernel of the table of two-tensor ops for CUDA (ops/engine/map/map_cuda.cuh says how they run).

namespace ct::cuda_kernels {
using namespace elementwise;
using namespace binary::formulas;

struct BinaryFormulas : Table<void
#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) \
  , Row<name##_y, has_integers(types)>, Row<name##_da>, Row<name##_db>
#define CT_PREDICATE(name, text, types, samples, y) , Row<name##_y, has_integers(types)>
#include <cotangent/ops/elementwise/binary_table.inc>
#undef CT_BINARY
#undef CT_PREDICATE
                              > {
};
}  // namespace ct::cuda_kernels

#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db)                                  \
  CT_KERNELS(cuda, name,                                                                                    \
             {#name, forward_cuda<name##_y, has_floats(types), has_integers(types), false, BinaryFormulas>, \
              binary_backward_cuda<name##_da, name##_db, BinaryFormulas>})
#define CT_PREDICATE(name, text, types, samples, y) \
  CT_KERNELS(                                       \
      cuda, name,                                   \
      forward_only(#name,                           \
                   forward_cuda<name##_y, has_floats(types), has_integers(types), true, BinaryFormulas>))
#include <cotangent/ops/elementwise/binary_table.inc>
#undef CT_BINARY
#undef CT_PREDICATE
