#pragma once

#include <cotangent/core/base/convert_element.h>
#include <cotangent/core/cuda/convert.h>

namespace ct::gpu {

/// Element i of memory of a dtype that is known at run time becomes `value`, a double or an i64: both hold every
/// element without loss, and rounding from there gives the bits of rounding directly.
template <class Wide>
__device__ void store_element(void* data, DType dtype, std::int64_t i, Wide value) {
  const auto store = [&]<class T>(T element) { static_cast<T*>(data)[i] = element; };
  switch (dtype) {
    case DType::f32: return store(convert_element<float>(value));
    case DType::f64: return store(convert_element<double>(value));
    case DType::f16: return store(from_compute<Half>(value));
    case DType::bf16: return store(from_compute<BFloat16>(value));
    case DType::i64: return store(convert_element<std::int64_t>(value));
    case DType::i32: return store(convert_element<std::int32_t>(value));
    case DType::u8: return store(convert_element<std::uint8_t>(value));
    case DType::boolean: return store(value != 0);
  }
}

}  // namespace ct::gpu
