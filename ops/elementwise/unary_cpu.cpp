#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/unary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cpu.h>
#include <cotangent/ops/engine/map/math_f64_cpu.h>

// Every kernel of the table for the CPU: the formulas run over vectors of f32, f64 and i64
// (ops/engine/map/map_cpu.h).

namespace ct::cpu_kernels {
using namespace map;
using namespace elementwise::unary::formulas;
}  // namespace ct::cpu_kernels

#define CT_UNARY(name, text, types, saved, samples, y, dx)                                                   \
  CT_KERNELS(                                                                                                \
      cpu, name,                                                                                             \
      {#name, forward_cpu<name##_y, has_floats(types), has_integers(types)>, unary_backward_cpu<name##_dx>}, \
      formulas_of_kernels<name##_y, has_floats(types), has_integers(types), name##_dx>(#name " formulas"))
#include <cotangent/ops/elementwise/unary_table.inc>
