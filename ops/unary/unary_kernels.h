#pragma once

#include <cotangent/core/op_def.h>

// The kernels of the unary ops, four per line of the table. Parameters come as elementwise::Parameters.

namespace ct::unary {

#define CT_UNARY(name, text, types, saved, samples, y, dx) \
  void name##_forward_cpu(const Forward&);                 \
  void name##_backward_cpu(const Backward&);               \
  void name##_forward_cuda(const Forward&);                \
  void name##_backward_cuda(const Backward&);
#include <cotangent/ops/unary/unary_table.inc>
#undef CT_UNARY

}  // namespace ct::unary
