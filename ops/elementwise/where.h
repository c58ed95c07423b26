#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/scalar.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// a where `condition` (bool) is true, b where it is false; all three broadcast. Tensors a and b of different
/// dtypes are promoted as in arithmetic. The cotangent flows to a where the condition is true and to b where
/// it is false; the other one gets 0 there, also where its value is NaN or infinite. Throws DTypeError for a
/// condition that is not bool, ShapeError for shapes that do not broadcast.
CT_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// The same with a number on one side. Throws ValueError for one that an integer tensor's dtype can't hold.
CT_API Tensor where(const Tensor& condition, const Tensor& a, const Scalar& b);
CT_API Tensor where(const Tensor& condition, const Scalar& a, const Tensor& b);
/// Two numbers: the result is f32 if one is floating, else i64, or bool for two bools.
CT_API Tensor where(const Tensor& condition, const Scalar& a, const Scalar& b);

}  // namespace ct
