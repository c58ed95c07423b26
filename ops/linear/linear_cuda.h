#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/gemm/gemm_cuda.h>

// linear's kernels on a GPU, for the ops that do more in the same launches.

namespace ct::linear_impl {

/// y = x w^T + b, and max(y, 0) where `relu` and a launch does that too: returns whether it did.
bool forward_cuda(const Forward& f, bool relu);

/// The gradients of weight and bias, db as the sums of rows of g^T, and, with `dx`, that of x in one launch. `gate` is y of a
/// linear_relu, or undefined. False where that can't be, or is not the fastest.
bool layer_backward(const Backward& b, bool dx, const Tensor& gate);

/// The gradients by products one after the other.
void backward_apart(const Backward& b);

/// Data of a tensor in f32, or null.
inline float* f32_or_null(const Tensor& t) {
  return t.defined() ? static_cast<float*>(t.raw_data()) : nullptr;
}

}  // namespace ct::linear_impl
