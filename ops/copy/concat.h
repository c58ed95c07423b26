#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// The tensors one after the other along `axis`: y[.., offset_i + j, ..] = x_i[.., j, ..] where offset_i is
/// the sum of the sizes before. Ranks and all other sizes must be equal; sizes of 0 along `axis` are
/// welcome. Different dtypes are promoted. The gradient of each input is a view of the result's gradient:
/// nothing is copied in backward.
/// Throws ValueError for an empty list, ShapeError for scalars and for shapes or axes that do not fit,
/// DeviceError for different devices.
CT_API Tensor concat(TensorList tensors, Integer axis = 0);
/// concat(), by PyTorch's name.
inline Tensor cat(TensorList tensors, Integer axis = 0) { return concat(tensors, axis); }

/// The tensors side by side along a new axis: y[.., i, ..] = x_i[.., ..], with i at position `axis` in
/// [-rank - 1, rank]. All shapes must be equal. Otherwise as concat.
CT_API Tensor stack(TensorList tensors, Integer axis = 0);

}  // namespace ct
