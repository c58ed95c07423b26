#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor_index.h>

namespace ct {

/// x with `values` written, or added, where x.index(indices) reads: Tensor::index_put_() of a copy, recorded.
CT_API Tensor index_put(const Tensor& x, const TensorIndices& indices, const Tensor& values,
                        Flag accumulate = false);

}  // namespace ct
