#include <cotangent/ops/binary/binary_formulas_internal.h>
#include <cotangent/ops/binary/binary_kernels.h>
#include <cotangent/ops/elementwise_cuda.h>

// Every kernel of the table of tensor-and-number ops for CUDA; apart to keep compile times short.

namespace ct::binary {

using namespace elementwise;

#define CT_FORWARD(name, types, predicate)                                                  \
  void name##_forward_cuda(const Forward& f) {                                              \
    forward_cuda<formulas::name##_y, has_floats(types), has_integers(types), predicate>(f); \
  }
#define CT_SCALAR(name, text, types, saved, samples, y, dx) \
  CT_FORWARD(name, types, false)                            \
  void name##_backward_cuda(const Backward& b) { unary_backward_cuda<formulas::name##_dx>(b); }
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) CT_FORWARD(name, types, true)
#include <cotangent/ops/binary/scalar_table.inc>
#undef CT_SCALAR
#undef CT_SCALAR_PREDICATE

}  // namespace ct::binary
