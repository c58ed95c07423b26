#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/ops/engine/map/formulas.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct MseLossAttrs {
  Reduction reduction;
};

namespace mse_loss_kernels {

struct SquaredError : elementwise::Formula {
  static constexpr int kInputs = 2;
  static constexpr bool kF64OnCpu = false;
  template <class X>
  static CT_FORMULA X eval(X x, X t, X, X) {
    return (x - t) * (x - t);
  }
};
/// The cotangent of the loss is g p.
struct SquaredErrorGradients : SquaredError {
  static constexpr int kInputs = 3, kOutputs = 2;
  static constexpr unsigned kOptional = 1;  // g
  template <class X>
  static CT_FORMULA auto eval(X g, X x, X t, X p, X) {
    const X dx = g * p * ((x - t) + (x - t));
    return elementwise::results(dx, -dx);
  }
};

}  // namespace mse_loss_kernels
}  // namespace ct
