#pragma once

#include <cstdint>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct NllLossAttrs {
  Reduction reduction;
  std::int64_t ignore_index;
};

// Output 1, for Reduction::mean alone: the sum of the rows' weights, which the mean is divided by.

}  // namespace ct
