#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/op_call.h>
#include <cotangent/core/tensor/tensor.h>

// Gradients of inputs that a kernel read broadcast: computed whole, then summed into place.

namespace ct {

/// Memory for the gradient of input i before it is summed over what the input was broadcast along to `shape`: grad_in(i),
/// where that has this shape and dtype.
CT_API Tensor whole_grad(const Backward& b, int i, const Shape& shape, DType dtype);

/// Gives input i its gradient: `whole` itself where nothing was broadcast, else its sum_to(), in grad_in(i); of another dtype
/// than the input it is converted.
CT_API void set_summed_grad(const Backward& b, int i, const Tensor& whole);

}  // namespace ct
