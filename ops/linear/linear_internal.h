#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/gemm/product.h>
#include <cotangent/ops/engine/map/formulas.h>

namespace ct {

/// x and y as matrices: a vector is one row.
inline gemm::Missing linear_rows(int rank) { return rank == 1 ? gemm::Missing::rows : gemm::Missing::none; }
// linear_relu by itself: y from x w^T + b, and the cotangent of x w^T + b from that of y.
CT_MAP_FORMULA(Rectified, map::Formula, 1, 1, (X x, X, X), return where(x <= 0, 0, x))
CT_MAP_FORMULA(Passed, map::Formula, 2, 1, (X g, X y, X, X), return where(y <= 0, 0, g))

/// The backward of both devices, with the GEMM of one.
void linear_backward(const Backward& b, const gemm::Backend& backend);
/// The backward of linear_relu: `pass` writes the cotangent of x w^T + b, from which `backward` goes on.
template <class Pass, class Next>
void through_relu(const Backward& b, const Pass& pass, const Next& backward) {
  Tensor g = Tensor::allocate(b.grad().shape(), b.grad().dtype(), b.grad().device());
  const Tensor* const from[] = {&b.grad(), &b.out()};
  pass(g, from);
  Backward through = b;
  through.grads = {&g, 1};
  backward(through);
}

}  // namespace ct
