#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/unary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Every forward kernel of the table for CUDA (ops/engine/map/map_cuda.cuh says how they run); the backward ones are
// in unary_backward.cu, to keep compile times short, those of cold lines in unary_cold_cuda.cu.

namespace ct::elementwise::unary {

#define CT_UNARY(name, text, types, saved, samples, y, dx) void name##_backward_cuda(const Backward&);
#define CT_UNARY_COLD(...)
#include <cotangent/ops/elementwise/unary_table.inc>

}  // namespace ct::elementwise::unary

namespace ct::cuda_kernels {
using namespace map;
using namespace elementwise::unary::formulas;

struct UnaryValues : Table<void
#define CT_UNARY(name, text, types, saved, samples, y, dx) , Row<name##_y, has_integers(types)>
#define CT_UNARY_COLD(...)
#include <cotangent/ops/elementwise/unary_table.inc>
                           > {
};
}  // namespace ct::cuda_kernels

#define CT_UNARY(name, text, types, saved, samples, y, dx)                                               \
  CT_KERNELS(cuda, name,                                                                                 \
             {#name, forward_cuda<name##_y, has_floats(types), has_integers(types), false, UnaryValues>, \
              elementwise::unary::name##_backward_cuda})
#define CT_UNARY_COLD(...)
#include <cotangent/ops/elementwise/unary_table.inc>
