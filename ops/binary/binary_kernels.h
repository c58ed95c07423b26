#pragma once

#include <cotangent/core/op_def.h>

// The kernels of the ops of two tensors, and of a tensor and a number. Parameters come as
// elementwise::Parameters.

namespace ct::binary {

#define CT_FORWARD(name)                   \
  void name##_forward_cpu(const Forward&); \
  void name##_forward_cuda(const Forward&);
#define CT_BACKWARD(name)                    \
  void name##_backward_cpu(const Backward&); \
  void name##_backward_cuda(const Backward&);

#define CT_BINARY(name, text, types, saves_a, saves_b, samples, y, da, db) CT_FORWARD(name) CT_BACKWARD(name)
#define CT_PREDICATE(name, text, types, samples, y) CT_FORWARD(name)
#include <cotangent/ops/binary/binary_table.inc>
#undef CT_BINARY
#undef CT_PREDICATE

#define CT_SCALAR(name, text, types, saved, samples, y, dx) CT_FORWARD(name) CT_BACKWARD(name)
#define CT_SCALAR_PREDICATE(name, text, types, samples, y) CT_FORWARD(name)
#include <cotangent/ops/binary/scalar_table.inc>
#undef CT_SCALAR
#undef CT_SCALAR_PREDICATE

#undef CT_FORWARD
#undef CT_BACKWARD

}  // namespace ct::binary
