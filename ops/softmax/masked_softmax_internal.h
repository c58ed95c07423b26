#pragma once

#include <cstdint>

#include <cotangent/core/op_def.h>

namespace ct::masked_softmax_kernels {

struct Attrs {
  double scale;
};

/// Where the rows of a mask lie that is broadcast to [axes[0], axes[1], ..., columns]. Neighbouring axes that
/// are one for the mask are merged; axes of size 1 are left out.
struct MaskRows {
  int count = 0;
  std::int64_t size[kMaxRank], stride[kMaxRank];
  std::int64_t step = 0;  // along a row

  MaskRows(const Tensor& mask, const Shape& shape) {
    const Strides s = broadcast_strides(mask.shape(), mask.strides(), shape);
    const int rank = shape.size();
    step = rank > 0 && shape[rank - 1] > 1 ? s[rank - 1] : 0;
    for (int i = 0; i + 1 < rank; ++i) {
      if (shape[i] == 1) continue;
      if (count > 0 && stride[count - 1] == s[i] * shape[i]) {
        size[count - 1] *= shape[i];
        stride[count - 1] = s[i];
      } else {
        size[count] = shape[i];
        stride[count++] = s[i];
      }
    }
  }
  CT_HD std::int64_t offset(std::int64_t row) const {
    std::int64_t at = 0;
    for (int i = count - 1; i > 0; --i) {
      at += row % size[i] * stride[i];
      row /= size[i];
    }
    return count > 0 ? at + row * stride[0] : 0;
  }
};

}  // namespace ct::masked_softmax_kernels
