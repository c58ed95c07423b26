#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cpu.h>
#include <cotangent/ops/engine/map/math_f64_cpu.h>

// Every kernel of the two tables for the CPU (ops/engine/map/map_cpu.h says how they run).

namespace ct::cpu_kernels {
using namespace map;
using namespace elementwise::binary::formulas;
}  // namespace ct::cpu_kernels

#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db)                                \
  CT_KERNELS(cpu, name,                                                                                   \
             {#name, forward_cpu<name##_y, has_floats(types), has_integers(types)>,                       \
              operands_backward_cpu<name##_da, name##_db>},                                               \
             formulas_of_kernels<name##_y, has_floats(types), has_integers(types), name##_da, name##_db>( \
                 #name " formulas"))
#define CT_PREDICATE(name, text, types, samples, y)                                                         \
  CT_KERNELS(cpu, name, forward_only(#name, forward_cpu<name##_y, has_floats(types), has_integers(types)>), \
             formulas_of_kernels<name##_y, has_floats(types), has_integers(types)>(#name " formulas"))
#define CT_BITWISE(name, text, types, samples, y) \
  CT_KERNELS(cpu, name, forward_only(#name, forward_cpu<name##_y, has_floats(types), has_integers(types)>))
#define CT_TERNARY(name, text, types, saves_a, saves_b, saves_c, samples, y, da, db, dc)                 \
  CT_KERNELS(cpu, name,                                                                                  \
             {#name, forward_cpu<name##_y, has_floats(types), has_integers(types)>,                      \
              operands_backward_cpu<name##_da, name##_db, name##_dc>},                                   \
             formulas_of_kernels<name##_y, has_floats(types), has_integers(types), name##_da, name##_db, \
                                 name##_dc>(#name " formulas"))
#include <cotangent/ops/elementwise/binary_table.inc>
#define CT_SCALAR(name, text, types, saved, samples, y, dx)                                                  \
  CT_KERNELS(                                                                                                \
      cpu, name,                                                                                             \
      {#name, forward_cpu<name##_y, has_floats(types), has_integers(types)>, unary_backward_cpu<name##_dx>}, \
      formulas_of_kernels<name##_y, has_floats(types), has_integers(types), name##_dx>(#name " formulas"))
#define CT_SCALAR_PREDICATE(name, text, types, samples, y)                                                  \
  CT_KERNELS(cpu, name, forward_only(#name, forward_cpu<name##_y, has_floats(types), has_integers(types)>), \
             formulas_of_kernels<name##_y, has_floats(types), has_integers(types)>(#name " formulas"))
#include <cotangent/ops/elementwise/scalar_table.inc>
