#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/ops/reduce/plan_internal.h>

namespace ct::reduction {

/// out = sum of x over the axes in `mask`, divided by `divisor`; added to out if `accumulate`. `out` is
/// contiguous, of x's kept shape (axes of size 1 do not matter), and of a dtype that x's sums accumulate in
/// or of x's own category.
void sum_cpu(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate);
void sum_cuda(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate);

}  // namespace ct::reduction
