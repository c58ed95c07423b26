#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include <cotangent/core/export.h>
#include <cotangent/core/tensor.h>

namespace ct {

/// The tensors one after the other along `axis`: y[.., offset_i + j, ..] = x_i[.., j, ..] where offset_i is
/// the sum of the sizes before. Ranks and all other sizes must be equal; sizes of 0 along `axis` are
/// welcome. Different dtypes are promoted. The gradient of each input is a view of the result's gradient:
/// nothing is copied on the way back.
/// Throws ValueError for an empty list, ShapeError for scalars and for shapes or axes that do not fit,
/// DeviceError for different devices.
CT_API Tensor concat(std::span<const Tensor> tensors, std::int64_t axis = 0);
inline Tensor concat(const std::vector<Tensor>& tensors, std::int64_t axis = 0) {
  return concat(std::span<const Tensor>(tensors), axis);
}
inline Tensor concat(std::initializer_list<Tensor> tensors, std::int64_t axis = 0) {
  return concat(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

/// The tensors side by side along a new axis: y[.., i, ..] = x_i[.., ..], with i at position `axis` in
/// [-rank - 1, rank]. All shapes must be equal. Otherwise as concat.
CT_API Tensor stack(std::span<const Tensor> tensors, std::int64_t axis = 0);
inline Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis = 0) {
  return stack(std::span<const Tensor>(tensors), axis);
}
inline Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t axis = 0) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

}  // namespace ct
