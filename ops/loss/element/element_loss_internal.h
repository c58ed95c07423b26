#pragma once

#include <cstdint>

#include <cotangent/ops/loss/reduction.h>

namespace ct::loss {

/// The part of an element's cotangent in that of the loss of `count` elements.
inline double share_of(Reduction r, std::int64_t count) {
  return r == Reduction::mean ? 1 / static_cast<double>(count) : 1;
}

}  // namespace ct::loss
