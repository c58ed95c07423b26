#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// y_i = exp(x_i) / sum_j exp(x_j) along `axis` (negative counts from the end); the largest element is
/// subtracted first, so nothing overflows. Shape and dtype are x's; 16-bit types are computed in f32. A row of
/// nothing but -inf, or with a NaN or +inf in it, gives NaN. Throws ShapeError for an axis outside of the
/// rank, DTypeError unless x is floating. Gradient: dx_i = y_i (g_i - sum_j g_j y_j), from the result alone.
CT_API Tensor softmax(const Tensor& x, Integer axis);

/// y_i = x_i - log sum_j exp(x_j) along `axis`: the logarithm of softmax without its loss of small
/// probabilities. Errors and special values as softmax.
/// Gradient: dx_i = g_i - exp(y_i) sum_j g_j, from the result alone.
CT_API Tensor log_softmax(const Tensor& x, Integer axis);

}  // namespace ct
