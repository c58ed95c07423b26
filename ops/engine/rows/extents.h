#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>

namespace ct::rows {

/// A contiguous tensor seen as [outer, n, inner] around an axis: outer * inner rows of n elements that are `inner` apart.
struct Extents {
  std::int64_t outer = 1, n = 1, inner = 1;
};
#ifndef CT_KERNEL_TEXT  // which has no code of the host
inline Extents extents(const char* op, const Shape& shape, std::int64_t axis) {
  const int a = wrap_axis(op, axis, shape.size());
  Extents e;
  for (int i = 0; i < shape.size(); ++i) (i < a ? e.outer : i == a ? e.n : e.inner) *= shape[i];
  return e;
}
#endif

}  // namespace ct::rows
