#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

// The gradient of broadcasting, for kernels: nothing here is recorded on the tape.

namespace ct {

/// `grad` summed over the axes along which a tensor of `shape` was broadcast to grad's shape; has exactly
/// that shape, and grad's dtype. Returns `grad` itself, whatever its strides, when there are none.
/// `shape` must broadcast to grad.shape(). 16-bit types are summed in f32.
CT_API Tensor sum_to(const Tensor& grad, const Shape& shape);

/// The same, written to `out`, or added to it. `out` is contiguous, of grad's dtype, or f32 where that has 16
/// bits.
CT_API void sum_to_into(Tensor& out, const Tensor& grad, bool accumulate);

}  // namespace ct
