#pragma once

#include <algorithm>
#include <cstdint>

#include <cotangent/core/base/error.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/convolution/window.h>

// Checks of the arguments of convolutions and pools.

namespace ct::convolution::windows {

/// Throws ValueError unless both numbers of `size` are from `least` to `most`.
inline void check(const char* op, const char* what, Size2d size, std::int64_t least, std::int64_t most) {
  CT_CHECK(std::min(size.height, size.width) >= least && std::max(size.height, size.width) <= most,
           ValueError, op, what, " is {", size.height, ", ", size.width, "}; both must be from ", least,
           " to ", most);
}

/// A line as an image of one row: [N, C, L], or of rank 2 where `least` says so, with an axis more.
inline Tensor row(const char* op, const char* name, const Tensor& t, int least) {
  CT_CHECK(t.defined(), ValueError, op, name, " is undefined; it is needed");
  CT_CHECK(t.dim() >= least && t.dim() <= 3, ShapeError, op, name, " is ", describe(t), "; it must be ",
           least == 2 ? "[N, C, L], or [C, L] for one sequence" : "of rank 3, a kernel of one axis");
  return t.unsqueeze(-2);
}

}  // namespace ct::convolution::windows
