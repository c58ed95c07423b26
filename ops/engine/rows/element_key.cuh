#pragma once

#include <cotangent/core/cuda/convert.h>
#include <cotangent/ops/engine/rows/order_key.h>

// Order keys of memory whose dtype is known at run time: one kernel for all dtypes, where memory is what it waits for.

namespace ct::rows {

/// Number of the lowest bits of element_key() that tell elements of a dtype apart.
inline int key_bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 64;
    case DType::f16: return 19;
    case DType::bf16: return 16;
    case DType::u8:
    case DType::boolean: return 8;
    default: return 32;
  }
}
/// Element i as a number of the same order; NaN is the largest, 0 and -0 are equal.
__device__ __forceinline__ unsigned long long element_key(const void* data, DType dtype, long long i) {
  const auto key = [&]<class T>(TypeTag<T>) -> unsigned long long {
    return order_key(gpu::to_compute(static_cast<const T*>(data)[i]));
  };
  switch (dtype) {
    case DType::f32: return key(TypeTag<float>{});
    case DType::f64: return key(TypeTag<double>{});
    case DType::f16: return key(TypeTag<Half>{}) >> 13;  // a float with fewer digits
    case DType::bf16: return key(TypeTag<BFloat16>{}) >> 16;
    case DType::i64: return key(TypeTag<std::int64_t>{});
    case DType::i32: return key(TypeTag<std::int32_t>{});
    default: return key(TypeTag<unsigned char>{});
  }
}

}  // namespace ct::rows
