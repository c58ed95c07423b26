#pragma once

#include <cstdint>

#include <cotangent/core/op_def.h>

namespace ct::embedding_kernels {

struct Attrs {
  std::int64_t padding_idx = 0;
  bool padded = false;

  /// The row without gradient; -1 if there is none.
  std::int64_t padding_row(std::int64_t rows) const {
    return !padded ? -1 : padding_idx < 0 ? padding_idx + rows : padding_idx;
  }
};

/// Contiguous indices of either integer type.
struct Indices {
  const void* data = nullptr;
  bool wide = true;  // i64, else i32

  explicit Indices(const Tensor& t) : data(t.raw_data()), wide(t.dtype() == DType::i64) {}
  CT_HD std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
};

void forward_cpu(const Forward& f);
void backward_cpu(const Backward& b);
void forward_cuda(const Forward& f);
void backward_cuda(const Backward& b);

}  // namespace ct::embedding_kernels
