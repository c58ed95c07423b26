#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// Contiguous indices, labels or positions of either integer type, as a kernel reads them.
struct Integers {
  const void* data = nullptr;
  bool wide = true;  // i64, else i32

  Integers() = default;
#ifndef CT_KERNEL_TEXT
  explicit Integers(const Tensor& t) : data(t.raw_data()), wide(t.dtype() == DType::i64) {}
#endif
  CT_HD std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

}  // namespace ct
