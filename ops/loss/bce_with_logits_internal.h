#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/ops/loss/reduction.h>

namespace ct {

struct BceWithLogitsAttrs {
  Reduction reduction;
};

/// A weight that is read cyclically: element i of the input has values[i % period]. That covers a scalar, one
/// weight per class and one per element without a copy; other broadcasts are written out first.
struct CyclicWeight {
  Tensor values;  // contiguous; undefined for a weight of 1
  std::int64_t period = 1;

  CyclicWeight() = default;
  CyclicWeight(const Tensor& weight, const Shape& input);
};

}  // namespace ct
