#pragma once

#include <cotangent/core/device/kernel_tables.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/engine/fold/plan.h>
#include <cotangent/ops/engine/rows/record.h>

namespace ct::fold {

/// out = sum of x over the axes in `mask`, divided by `divisor`; added to out if `accumulate`. `out` is
/// contiguous, of x's kept shape (axes of size 1 do not matter), and of x's category of dtypes (f64 apart
/// from the other floating ones).
void sum_cpu(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate);
/// The same of all elements of a contiguous x, within formulas.
void sum_within(const Tensor& x, const Tensor& out, double divisor, const rows::Passes& passes);
void sum_cuda(const Tensor& x, AxisMask mask, const Tensor& out, double divisor, bool accumulate);

}  // namespace ct::fold

namespace ct {
struct SumFunctions {
  decltype(&fold::sum_cpu) sum;
};
CT_FUNCTION_TABLES(SumFunctions, sums)
}  // namespace ct
