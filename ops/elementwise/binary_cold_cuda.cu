#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// The kernels of cold lines for CUDA, forward and backward: one for each compute type, which knows them all.

namespace ct::cuda_kernels {
using namespace map;
using namespace elementwise::binary::formulas;

struct ColdBinary : Table<void
#define CT_BINARY(...)
#define CT_PREDICATE(...)
#define CT_BINARY_COLD(name, text, types, saves_a, saves_b, samples, y, da, db) \
  , Row<name##_y, has_integers(types)>, Row<name##_da>, Row<name##_db>
#define CT_BITWISE(name, text, types, samples, y) , Row<name##_y, true, false>
#define CT_TERNARY(name, text, types, saves_a, saves_b, saves_c, samples, y, da, db, dc) \
  , Row<name##_y, has_integers(types)>, Row<name##_da>, Row<name##_db>, Row<name##_dc>
#include <cotangent/ops/elementwise/binary_table.inc>
                          > {
};

template <class F, DTypeSet types>
constexpr auto kColdForward = forward_cuda<F, has_floats(types), has_integers(types), false, ColdBinary>;
}  // namespace ct::cuda_kernels

#define CT_BINARY(...)
#define CT_PREDICATE(...)
#define CT_BINARY_COLD(name, text, types, saves_a, saves_b, samples, y, da, db) \
  CT_KERNELS(                                                                   \
      cuda, name,                                                               \
      {#name, kColdForward<name##_y, types>, operands_backward_cuda<ColdBinary, name##_da, name##_db>})
#define CT_BITWISE(name, text, types, samples, y) \
  CT_KERNELS(cuda, name, forward_only(#name, kColdForward<name##_y, types>))
#define CT_TERNARY(name, text, types, saves_a, saves_b, saves_c, samples, y, da, db, dc) \
  CT_KERNELS(cuda, name,                                                                 \
             {#name, kColdForward<name##_y, types>,                                      \
              operands_backward_cuda<ColdBinary, name##_da, name##_db, name##_dc>})
#include <cotangent/ops/elementwise/binary_table.inc>
