#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/walk/axes.h>

namespace ct::softmax_impl::masked {

struct Attrs {
  double scale;
};

/// Where the rows of a mask lie that is broadcast to [axes[0], axes[1], ..., columns].
struct MaskRows {
  Axes<1> rows;
  std::int64_t step = 0;  // along a row

  MaskRows(const Tensor& mask, const Shape& shape) {
    const Strides s = broadcast_strides(mask.shape(), mask.strides(), shape);
    const int rank = shape.size();
    step = rank > 0 && shape[rank - 1] > 1 ? s[rank - 1] : 0;
    for (int i = 0; i + 1 < rank; ++i) rows.append(shape[i], {s[i]});
  }
  CT_HD std::int64_t offset(std::int64_t row) const {
    std::int64_t at = 0;
    for (int i = rows.rank - 1; i > 0; --i) {
      at += row % rows.size[i] * rows.stride[i][0];
      row /= rows.size[i];
    }
    return rows.rank > 0 ? at + row * rows.stride[0][0] : 0;
  }
};

}  // namespace ct::softmax_impl::masked
