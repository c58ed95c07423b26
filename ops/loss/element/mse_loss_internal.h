#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/formulas.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

#ifndef CT_KERNEL_TEXT  // which has no code of the host
struct MseLossAttrs {
  Reduction reduction;
};
#endif

namespace loss::mse {

struct Traits : map::Formula {};
CT_MAP_FORMULA(SquaredError, Traits, 2, 1, (X x, X t, X, X), return (x - t) * (x - t))

template <class X>
CT_FORMULA auto gradients_of(X dx) {
  return map::results(dx, -dx);
}
/// The cotangent of the loss is g p.
struct GradientTraits : Traits {
  static constexpr unsigned kOptional = 1;  // g
};
CT_MAP_FORMULA(SquaredErrorGradients, GradientTraits, 3, 2, (X g, X x, X t, X p, X),
               return gradients_of(g * p * ((x - t) + (x - t))))
/// The same, one by one.
CT_MAP_FORMULA(SquaredErrorDx, Traits, 3, 1, (X g, X x, X t, X p, X), return g * p * ((x - t) + (x - t)))
CT_MAP_FORMULA(SquaredErrorDt, Traits, 3, 1, (X g, X x, X t, X p, X), return -(g * p * ((x - t) + (x - t))))

}  // namespace loss::mse
}  // namespace ct
