#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/ops/elementwise_formulas_internal.h>

// Kernels of where(condition, a, b), and of where(condition, a, number) with the number in p; q is the value
// of the condition that selects the number. Parameters come as elementwise::Parameters.

namespace ct::where_op {

void where_forward_cpu(const Forward&);
void where_backward_cpu(const Backward&);
void where_forward_cuda(const Forward&);
void where_backward_cuda(const Backward&);
void where_scalar_forward_cpu(const Forward&);
void where_scalar_backward_cpu(const Backward&);
void where_scalar_forward_cuda(const Forward&);
void where_scalar_backward_cuda(const Backward&);

// Formulas (see ops/elementwise_cpu.h). Input 0 is the condition, which is read as 0 or 1.
struct Select {
  static constexpr int kInputs = 3;
  static constexpr unsigned kMasks = 1;
  template <class X>
  static CT_FORMULA X eval(X c, X a, X b, X, X) {
    return where(c != 0, a, b);
  }
};
struct SelectScalar {
  static constexpr int kInputs = 2;
  static constexpr unsigned kMasks = 1;
  template <class X>
  static CT_FORMULA X eval(X c, X a, X p, X q) {
    return where(c == q, p, a);
  }
};
// The cotangent where the condition is not q, else 0.
struct PassUnless {
  static constexpr int kInputs = 2;
  static constexpr unsigned kMasks = 1;
  template <class X>
  static CT_FORMULA X eval(X c, X g, X, X q) {
    return where(c == q, 0, g);
  }
};

}  // namespace ct::where_op
