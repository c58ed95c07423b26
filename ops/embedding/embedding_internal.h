#pragma once

#include <cstdint>

#include <cotangent/core/integers_internal.h>
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

using Indices = Integers;

}  // namespace ct::embedding_kernels
