#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// x / (1 + |x|), element by element (Turian et al., 2009): f32, f64, f16, bf16, any shape; the result is
/// contiguous. Throws DTypeError for other dtypes.
CT_API Tensor squash(const Tensor& x);

}  // namespace ct
