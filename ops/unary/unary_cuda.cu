#include <cotangent/ops/elementwise_cuda.h>
#include <cotangent/ops/unary/unary_formulas_internal.h>
#include <cotangent/ops/unary/unary_kernels.h>

// Every forward kernel of the table for CUDA (ops/elementwise_cuda.h says how they run).

namespace ct::unary {

using namespace elementwise;

#define CT_UNARY(name, text, types, saved, samples, y, dx)                       \
  void name##_forward_cuda(const Forward& f) {                                   \
    forward_cuda<formulas::name##_y, has_floats(types), has_integers(types)>(f); \
  }
#include <cotangent/ops/unary/unary_table.inc>
#undef CT_UNARY

}  // namespace ct::unary
