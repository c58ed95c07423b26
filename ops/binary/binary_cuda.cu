#include <cotangent/ops/binary/binary_formulas_internal.h>
#include <cotangent/ops/binary/binary_kernels.h>
#include <cotangent/ops/elementwise_cuda.h>

// Every kernel of the table of two-tensor ops for CUDA (ops/elementwise_cuda.h says how they run).

namespace ct::binary {

using namespace elementwise;

#define CT_FORWARD(name, types, predicate)                                                  \
  void name##_forward_cuda(const Forward& f) {                                              \
    forward_cuda<formulas::name##_y, has_floats(types), has_integers(types), predicate>(f); \
  }
#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) \
  CT_FORWARD(name, types, false)                                           \
  void name##_backward_cuda(const Backward& b) {                           \
    binary_backward_cuda<formulas::name##_da, formulas::name##_db>(b);     \
  }
#define CT_PREDICATE(name, text, types, samples, y) CT_FORWARD(name, types, true)
#include <cotangent/ops/binary/binary_table.inc>
#undef CT_BINARY
#undef CT_PREDICATE

}  // namespace ct::binary
