#include <cotangent/ops/elementwise/unary_formulas_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

// Every backward kernel of the table for CUDA; apart from the forward ones to keep compile times short.

namespace ct::elementwise::unary {

using namespace map;

struct Gradients : Table<void
#define CT_UNARY(name, text, types, saved, samples, y, dx) , Row<formulas::name##_dx>
#define CT_UNARY_COLD(...)
#include <cotangent/ops/elementwise/unary_table.inc>
                         > {
};

#define CT_UNARY(name, text, types, saved, samples, y, dx) \
  void name##_backward_cuda(const Backward& b) { unary_backward_cuda<formulas::name##_dx, Gradients>(b); }
#define CT_UNARY_COLD(...)
#include <cotangent/ops/elementwise/unary_table.inc>

}  // namespace ct::elementwise::unary
