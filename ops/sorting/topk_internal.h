#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>

namespace ct::sorting {

struct Attrs {
  std::int64_t k;  // topk alone: sort gives all
  std::int64_t axis;
  bool descending;  // topk: the largest
};

/// A contiguous tensor seen as [outer, n, inner] around an axis: `rows` rows of n elements, `inner` apart. A scalar is
/// a row.
struct Rows {
  std::int64_t n = 1, inner = 1, rows = 1;

  Rows(const Shape& shape, int axis) {
    for (int i = 0; i < shape.size(); ++i) {
      if (i != axis) rows *= shape[i];
      if (i == axis) n = shape[i];
      if (i > axis) inner *= shape[i];
    }
  }
  /// Element 0 of a row whose length is `length` instead of n.
  CT_HD std::int64_t start(std::int64_t row, std::int64_t length) const {
    return inner == 1 ? row * length : row / inner * length * inner + row % inner;
  }
};

/// The rows of x, and how many of each are chosen.
struct Choice : Rows {
  std::int64_t k;

  Choice(const OpDef& op, AttrsView attrs, const Shape& x, const Shape& chosen)
      : Rows(x, wrap_axis(op.name, static_cast<const Attrs*>(attrs.data)->axis, x.size())),
        k(Rows(chosen, wrap_axis(op.name, static_cast<const Attrs*>(attrs.data)->axis, x.size())).n) {}
};

/// sort's and topk's: each cotangent at the place that its value came from.
void rule(const Backward& b);

/// The k first of each row by a radix sort of all rows, on CUDA.
void sort_cuda(const Forward& f, const Choice& rows, bool descending);

}  // namespace ct::sorting
