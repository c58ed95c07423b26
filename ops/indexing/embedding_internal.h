#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/scatter/scatter.h>

namespace ct::indexing_impl::embedded {

struct Attrs {
  std::int64_t padding_idx = 0;
  bool padded = false;

  /// The row without gradient; -1 if there is none.
  std::int64_t padding_row(std::int64_t rows) const {
    return !padded ? -1 : padding_idx < 0 ? padding_idx + rows : padding_idx;
  }
};

/// The kernels of both devices: rows are taken, and their cotangents added.
inline void forward(const Forward& f) {
  const Tensor& weight = f.in(0);
  scatter_impl::take({"embedding", IndexKind::token}, {f.in(1), weight.size(0)}, weight.size(1), weight,
                     weight.stride(0), f.out());
}
inline void backward(const Backward& b) {
  if (!b.needs(0)) return;
  const Tensor& dw = b.grad_in(0);
  scatter_impl::Selection rows(b.in(1), dw.size(0));
  rows.skip = b.attrs<Attrs>().padding_row(rows.rows);
  scatter_impl::add("embedding", nullptr, rows, dw.size(1), b.grad(), dw, b.accumulate(0));
}

}  // namespace ct::indexing_impl::embedded
