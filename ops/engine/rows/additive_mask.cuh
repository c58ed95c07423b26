#pragma once

#include <cmath>
#include <cstdint>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/tensor/tensor.h>

// Reading masks of scores in kernels, as numbers to be added: a floating mask as it is, a bool one as 0 where
// it is true and -inf where it hides. For .cu files.

namespace ct::rows {

enum class MaskKind : int { none, boolean, f32, f64, f16, bf16 };

/// The kind of a mask; `none` of an undefined one.
inline MaskKind mask_kind(const Tensor& mask) {
  if (!mask.defined()) return MaskKind::none;
  switch (mask.dtype()) {
    case DType::f32: return MaskKind::f32;
    case DType::f64: return MaskKind::f64;
    case DType::f16: return MaskKind::f16;
    case DType::bf16: return MaskKind::bf16;
    default: return MaskKind::boolean;
  }
}

/// Element `at` of a mask; 0 of none.
template <class C>
__device__ __forceinline__ C mask_value(MaskKind kind, const void* data, std::int64_t at) {
  switch (kind) {
    case MaskKind::boolean: return static_cast<const bool*>(data)[at] ? C(0) : -C(INFINITY);
    case MaskKind::f32: return static_cast<C>(static_cast<const float*>(data)[at]);
    case MaskKind::f64: return static_cast<C>(static_cast<const double*>(data)[at]);
    case MaskKind::f16: return static_cast<C>(gpu::to_compute(static_cast<const Half*>(data)[at]));
    case MaskKind::bf16: return static_cast<C>(gpu::to_compute(static_cast<const BFloat16*>(data)[at]));
    default: return C(0);
  }
}

}  // namespace ct::rows
