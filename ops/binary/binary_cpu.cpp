#include <cotangent/ops/binary/binary_formulas_internal.h>
#include <cotangent/ops/binary/binary_kernels.h>
#include <cotangent/ops/elementwise_cpu.h>

// Every kernel of the two tables for the CPU (ops/elementwise_cpu.h says how they run).

namespace ct::binary {

using namespace elementwise;

#define CT_FORWARD(name, types)                                                 \
  void name##_forward_cpu(const Forward& f) {                                   \
    forward_cpu<formulas::name##_y, has_floats(types), has_integers(types)>(f); \
  }

#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) \
  CT_FORWARD(name, types)                                                  \
  void name##_backward_cpu(const Backward& b) {                            \
    binary_backward_cpu<formulas::name##_da, formulas::name##_db>(b);      \
  }
#define CT_PREDICATE(name, text, types, samples, y) CT_FORWARD(name, types)
#include <cotangent/ops/binary/binary_table.inc>
#undef CT_BINARY
#undef CT_PREDICATE

#define CT_SCALAR(name, text, types, saved, samples, y, dx) \
  CT_FORWARD(name, types)                                   \
  void name##_backward_cpu(const Backward& b) { unary_backward_cpu<formulas::name##_dx>(b); }
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) CT_FORWARD(name, types)
#include <cotangent/ops/binary/scalar_table.inc>
#undef CT_SCALAR
#undef CT_SCALAR_PREDICATE

}  // namespace ct::binary
