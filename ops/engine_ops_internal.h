#pragma once

#include <cotangent/core/tensor.h>

namespace ct::detail {

/// Whether a contiguous floating tensor on the current CUDA device holds finite values only. Waits.
bool all_finite_cuda(const Tensor& t);

/// a += b on the current CUDA device: floating, the same shape and dtype, any strides.
void add_cuda(const Tensor& a, const Tensor& b);

}  // namespace ct::detail
