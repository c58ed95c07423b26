#pragma once

#include <cstdint>

#include <cotangent/core/op_def.h>

namespace ct::topk_kernels {

struct Attrs {
  std::int64_t k;
  std::int64_t axis;
};

/// A contiguous tensor seen as [outer, n, inner] around an axis: `rows` rows of n elements, `inner` apart.
struct Rows {
  std::int64_t n = 1, inner = 1, rows = 1;

  Rows(const Shape& shape, int axis) {
    n = shape[axis];
    for (int i = 0; i < shape.size(); ++i) {
      if (i == axis) continue;
      rows *= shape[i];
      if (i > axis) inner *= shape[i];
    }
  }
  /// Element 0 of a row whose length is `length` instead of n.
  CT_HD std::int64_t start(std::int64_t row, std::int64_t length) const {
    return row / inner * length * inner + row % inner;
  }
};

}  // namespace ct::topk_kernels
