#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise/unary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cpu.h>

// Every kernel of the table for the CPU: the formulas run over vectors of f32, f64 and i64
// (ops/engine/map/map_cpu.h).

namespace ct {
namespace unary {
namespace {

using namespace elementwise;

constexpr KernelEntry kEntries[] = {
#define CT_UNARY(name, text, types, saved, samples, y, dx)                         \
  {#name, forward_cpu<formulas::name##_y, has_floats(types), has_integers(types)>, \
   unary_backward_cpu<formulas::name##_dx>},
#include <cotangent/ops/elementwise/unary_table.inc>
#undef CT_UNARY
};

}  // namespace
}  // namespace unary

namespace cpu_kernels {
extern const KernelTable unary;
const KernelTable unary{ct::unary::kEntries, std::size(ct::unary::kEntries)};
}  // namespace cpu_kernels
}  // namespace ct
