#pragma once

#include <optional>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/reduce/reduce.h>

// Scans: the value of a reduction after each element along an axis. Common to all of them:
//
//  * The result has x's shape. The axis may be negative; throws ShapeError for one outside of the rank. A scalar counts
//    as one element.
//  * 16-bit types and f32 are scanned in f32 or better, f64 in f64; integers wrap around.
//  * Gradients of any order. The same bits in every run and for any number of threads; equal rows of one tensor may differ
//    in rounding on a GPU, which scans all rows as one sequence.

namespace ct {

/// y_i = x_0 + ... + x_i along `axis`. Integers and bool are summed as i64. With `dtype`, x is converted first.
CT_API Tensor cumsum(const Tensor& x, Integer axis, std::optional<DType> dtype = std::nullopt);

/// y_i = x_0 x_1 ... x_i, likewise. The gradient is right where some x are 0.
CT_API Tensor cumprod(const Tensor& x, Integer axis, std::optional<DType> dtype = std::nullopt);

/// The largest, the smallest of x_0 ... x_i and where along the axis it is (i64), of equal ones the last. From the first NaN
/// on the values are NaN. x may be of any dtype. The gradient of a value goes to the element it is.
CT_API ValuesIndices cummax(const Tensor& x, Integer axis);
CT_API ValuesIndices cummin(const Tensor& x, Integer axis);

/// y_i = log(exp(x_0) + ... + exp(x_i)), without overflow. Only for floating dtypes.
CT_API Tensor logcumsumexp(const Tensor& x, Integer axis);

/// y_i = a_i y_{i-1} + x_i along `axis`, from y_{-1} = 0; with `reverse` y_i = a_i y_{i+1} + x_i, from the end. a and x have
/// one shape (ShapeError) and a floating dtype. It is what the gradients of scans are made of.
CT_API Tensor linear_recurrence(const Tensor& a, const Tensor& x, Integer axis, Flag reverse = false);

}  // namespace ct
