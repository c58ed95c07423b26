#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// softmax(scale * x + mask) along `axis`, in one pass. The mask broadcasts to x's shape; it is bool (true:
/// seen; false: hidden, probability 0) or of any floating dtype (added; -inf hides). Where everything along
/// the axis is hidden, or -inf itself, the result is 0, and so are the gradients; otherwise special values
/// are as in softmax(). Shape and dtype are x's; 16-bit types are computed in f32. Along the last axis
/// nothing is copied; along another one a copy of x with that axis last is made.
///
/// Gradients: dx_i = scale ds_i with ds_i = y_i (g_i - sum_j g_j y_j); of a floating mask ds, summed over
/// what it was broadcast along. Throws ShapeError for an axis outside of the rank or a mask that does not
/// broadcast to x, DTypeError unless x is floating and the mask floating or bool, ValueError for a scale that
/// is not finite.
CT_API Tensor masked_softmax(const Tensor& x, const Tensor& mask, Real scale = 1, Integer axis = -1);

}  // namespace ct
