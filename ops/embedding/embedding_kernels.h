#pragma once

#include <cstdint>

#include <cotangent/core/op_def.h>
#include <cotangent/ops/integers_internal.h>

namespace ct::embedding_kernels {

struct Attrs {
  std::int64_t padding_idx = 0;
  bool padded = false;

  /// The row without gradient; -1 if there is none.
  std::int64_t padding_row(std::int64_t rows) const {
    return !padded ? -1 : padding_idx < 0 ? padding_idx + rows : padding_idx;
  }
};

using Indices = Integers;

void forward_cpu(const Forward& f);
void backward_cpu(const Backward& b);
void forward_cuda(const Forward& f);
void backward_cuda(const Backward& b);

}  // namespace ct::embedding_kernels
