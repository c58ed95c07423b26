#pragma once

#include <cstdint>

#include <cotangent/core/export.h>
#include <cotangent/core/tensor.h>

namespace ct {

/// exp(x) / sum(exp(x)) along `axis` (negative counts from the end); the largest element is subtracted first,
/// so nothing overflows. Shape and dtype are x's; 16-bit types are computed in f32. A row of nothing but
/// -inf, or with a NaN or +inf in it, gives NaN. Throws ShapeError for an axis outside of the rank,
/// DTypeError unless x is floating. Gradient: dx = y (g - sum(g y)), from the result alone.
CT_API Tensor softmax(const Tensor& x, Integer axis);

/// x - log(sum(exp(x))) along `axis`: the logarithm of softmax without its loss of small probabilities.
/// Errors and special values as softmax.
/// Gradient: dx = g - exp(y) sum(g), from the result alone.
CT_API Tensor log_softmax(const Tensor& x, Integer axis);

}  // namespace ct
