#pragma once

#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/base/shape.h>
#include <cotangent/core/tensor/tensor.h>

// Views: other shapes over the same memory. The public interface are members of Tensor: view, reshape,
// flatten, transpose, t, permute, narrow, slice, select, expand, squeeze, unsqueeze, movedim, diagonal, unfold,
// unbind, split, chunk.
// They are described in core/tensor/tensor.h. Nothing is copied, except by reshape and flatten where the layout
// leaves no other way; gradients flow back through every view. Up to 4 parts of unbind are one op,
// whose gradient is written once; longer axes are taken apart by one select for each part.

namespace ct {

// The members most used, as functions.
inline Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }
inline Tensor flatten(const Tensor& x, Integer first_axis = 0, Integer last_axis = -1) {
  return x.flatten(first_axis, last_axis);
}
inline Tensor transpose(const Tensor& x, Integer axis0, Integer axis1) { return x.transpose(axis0, axis1); }
inline Tensor permute(const Tensor& x, const Dims& axes) { return x.permute(axes); }
inline Tensor squeeze(const Tensor& x) { return x.squeeze(); }
inline Tensor squeeze(const Tensor& x, Integer axis) { return x.squeeze(axis); }
inline Tensor unsqueeze(const Tensor& x, Integer axis) { return x.unsqueeze(axis); }
inline Tensor movedim(const Tensor& x, Integer source, Integer destination) {
  return x.movedim(source, destination);
}
inline std::vector<Tensor> unbind(const Tensor& x, Integer axis = 0) { return x.unbind(axis); }
inline std::vector<Tensor> split(const Tensor& x, Integer size, Integer axis = 0) {
  return x.split(size, axis);
}
inline std::vector<Tensor> chunk(const Tensor& x, Integer chunks, Integer axis = 0) {
  return x.chunk(chunks, axis);
}

/// `shape` with its -1, if it has one, replaced so that there are `numel` elements. Throws ShapeError,
/// naming `op`, if the sizes do not fit, are negative, or hold more than one -1.
CT_API Shape resolve_shape(const char* op, const Shape& shape, std::int64_t numel);

/// The strides with which a tensor of `shape` and `strides` can be read, in the same order of elements, as
/// `wanted`; false if there are none and only a copy helps. `wanted` must have as many elements.
CT_API bool view_strides(const Shape& shape, const Strides& strides, const Shape& wanted, Strides* out);

}  // namespace ct
