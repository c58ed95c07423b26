#pragma once

#include <cotangent/core/tensor.h>

namespace ct::detail {

/// Whether a contiguous floating tensor on the current CUDA device holds finite values only. Waits.
bool all_finite_cuda(const Tensor& t);

}  // namespace ct::detail
