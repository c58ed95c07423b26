#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise/binary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cpu.h>

// Every kernel of the two tables for the CPU (ops/engine/map/map_cpu.h says how they run).

namespace ct {
namespace binary {
namespace {

using namespace elementwise;

constexpr KernelEntry kEntries[] = {
#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db)         \
  {#name, forward_cpu<formulas::name##_y, has_floats(types), has_integers(types)>, \
   binary_backward_cpu<formulas::name##_da, formulas::name##_db>},
#define CT_PREDICATE(name, text, types, samples, y) \
  forward_only(#name, forward_cpu<formulas::name##_y, has_floats(types), has_integers(types)>),
#include <cotangent/ops/elementwise/binary_table.inc>
#undef CT_BINARY
#undef CT_PREDICATE
#define CT_SCALAR(name, text, types, saved, samples, y, dx)                        \
  {#name, forward_cpu<formulas::name##_y, has_floats(types), has_integers(types)>, \
   unary_backward_cpu<formulas::name##_dx>},
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) \
  forward_only(#name, forward_cpu<formulas::name##_y, has_floats(types), has_integers(types)>),
#include <cotangent/ops/elementwise/scalar_table.inc>
#undef CT_SCALAR
#undef CT_SCALAR_PREDICATE
};

}  // namespace
}  // namespace binary

namespace cpu_kernels {
extern const KernelTable binary;
const KernelTable binary{ct::binary::kEntries, std::size(ct::binary::kEntries)};
}  // namespace cpu_kernels
}  // namespace ct
