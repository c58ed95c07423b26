#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Every kernel of the tables of two-tensor ops and of tensor-and-number ops for CUDA (ops/engine/map/map_cuda.cuh says how
// they run), but those of cold lines: binary_cold_cuda.cu.

namespace ct::cuda_kernels {
using namespace map;
using namespace elementwise::binary::formulas;

struct Formulas : Table<void
#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) \
  , Row<name##_y, has_integers(types)>, Row<name##_da>, Row<name##_db>
#define CT_PREDICATE(name, text, types, samples, y) , Row<name##_y, has_integers(types)>
#define CT_BINARY_COLD(...)
#define CT_BITWISE(...)
#define CT_TERNARY(...)
#include <cotangent/ops/elementwise/binary_table.inc>
#define CT_SCALAR(name, text, types, saved, samples, y, dx) \
  , Row<name##_y, has_integers(types)>, Row<name##_dx>
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) , Row<name##_y, has_integers(types)>
#include <cotangent/ops/elementwise/scalar_table.inc>
                        > {
};

template <class F, bool integers, bool predicate>
constexpr auto kForward = forward_cuda<F, true, integers, predicate, Formulas>;
}  // namespace ct::cuda_kernels

#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) \
  CT_KERNELS(cuda, name,                                                   \
             {#name, kForward<name##_y, has_integers(types), false>,       \
              operands_backward_cuda<Formulas, name##_da, name##_db>})
#define CT_PREDICATE(name, text, types, samples, y) \
  CT_KERNELS(cuda, name, forward_only(#name, kForward<name##_y, has_integers(types), true>))
#define CT_BINARY_COLD(...)
#define CT_BITWISE(...)
#define CT_TERNARY(...)
#include <cotangent/ops/elementwise/binary_table.inc>
#define CT_SCALAR(name, text, types, saved, samples, y, dx) \
  CT_KERNELS(                                               \
      cuda, name,                                           \
      {#name, kForward<name##_y, has_integers(types), false>, unary_backward_cuda<name##_dx, Formulas>})
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) \
  CT_KERNELS(cuda, name, forward_only(#name, kForward<name##_y, has_integers(types), true>))
#include <cotangent/ops/elementwise/scalar_table.inc>
