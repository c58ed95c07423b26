#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/elementwise/unary.h>

// Gated activations (Shazeer 2020, "GLU variants improve transformer"), in one pass forward and one backward.
//
// gate and up have the same shape, dtype (floating) and device, and any strides: the halves of one
// projection, taken with narrow() or chunk(), are read where they lie. The result is contiguous. 16-bit types
// are computed in f32 and rounded once. Throws ShapeError, DTypeError, DeviceError.

namespace ct {

/// silu(gate) * up, with silu(x) = x / (1 + e^-x).
CT_API Tensor swiglu(const Tensor& gate, const Tensor& up);

/// gelu(gate) * up.
CT_API Tensor geglu(const Tensor& gate, const Tensor& up, Gelu approximate = Gelu::exact);

}  // namespace ct
