#include <cotangent/ops/elementwise_cpu.h>
#include <cotangent/ops/unary/unary_formulas_internal.h>
#include <cotangent/ops/unary/unary_kernels.h>

// Every kernel of the table for the CPU: the formulas run over vectors of f32, f64 and i64
// (ops/elementwise_cpu.h).

namespace ct::unary {

using namespace elementwise;

#define CT_UNARY(name, text, types, saved, samples, y, dx)                      \
  void name##_forward_cpu(const Forward& f) {                                   \
    forward_cpu<formulas::name##_y, has_floats(types), has_integers(types)>(f); \
  }                                                                             \
  void name##_backward_cpu(const Backward& b) { unary_backward_cpu<formulas::name##_dx>(b); }
#include <cotangent/ops/unary/unary_table.inc>
#undef CT_UNARY

}  // namespace ct::unary
