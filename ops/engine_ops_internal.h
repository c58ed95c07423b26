#pragma once

#include <cotangent/core/tensor/tensor.h>

namespace ct::detail {

/// Sets `found`, an i32 on the current CUDA device, to 1 if `t`, contiguous and floating, holds an infinity or NaN, else to 0.
void find_non_finite_cuda(const Tensor& t, const Tensor& found);

}  // namespace ct::detail
