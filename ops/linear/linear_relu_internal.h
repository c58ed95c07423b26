#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/map/formulas.h>

namespace ct::linear_impl {

// ReLU by itself: y from x w^T + b, and the cotangent of x w^T + b from that of y.
CT_MAP_FORMULA(Rectified, map::Formula, 1, 1, (X x, X, X), return where(x <= 0, 0, x))
CT_MAP_FORMULA(Passed, map::Formula, 2, 1, (X g, X y, X, X), return where(y <= 0, 0, g))

/// The backward: `pass` writes the cotangent of x w^T + b, from which `next`, linear's backward, goes on.
template <class Pass, class Next>
void through_relu(const Backward& b, const Pass& pass, const Next& next) {
  Tensor g = Tensor::allocate(b.grad().shape(), b.grad().dtype(), b.grad().device());
  const Tensor* const from[] = {&b.grad(), &b.out()};
  pass(g, from);
  Backward through = b;
  through.grads = {&g, 1};
  next(through);
}

}  // namespace ct::linear_impl
