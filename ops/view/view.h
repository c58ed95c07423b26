#pragma once

#include <cotangent/core/export.h>
#include <cotangent/core/shape.h>
#include <cotangent/core/tensor.h>

// Views: other shapes over the same memory. The public interface are members of Tensor: view, reshape,
// flatten, transpose, t, permute, narrow, slice, select, expand, squeeze, unsqueeze, movedim, diagonal, unfold,
// unbind, split, chunk.
// They are described in core/tensor.h. Nothing is copied, except by reshape and flatten where the layout
// leaves no other way; gradients flow back through every view. Up to 4 parts of unbind are one op,
// whose gradient is written once; longer axes are taken apart by one select for each part.

namespace ct {

/// `shape` with its -1, if it has one, replaced so that there are `numel` elements. Throws ShapeError,
/// naming `op`, if the sizes do not fit, are negative, or hold more than one -1.
CT_API Shape resolve_shape(const char* op, const Shape& shape, std::int64_t numel);

/// The strides with which a tensor of `shape` and `strides` can be read, in the same order of elements, as
/// `wanted`; false if there are none and only a copy helps. `wanted` must have as many elements.
CT_API bool view_strides(const Shape& shape, const Strides& strides, const Shape& wanted, Strides* out);

}  // namespace ct
