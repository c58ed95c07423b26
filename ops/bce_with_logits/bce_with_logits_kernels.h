#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/ops/reduction.h>

namespace ct {

struct BceWithLogitsAttrs {
  Reduction reduction;
};

void bce_with_logits_forward_cpu(const Forward& f);
void bce_with_logits_backward_cpu(const Backward& b);
void bce_with_logits_forward_cuda(const Forward& f);
void bce_with_logits_backward_cuda(const Backward& b);

/// A weight that is read cyclically: element i of the input has values[i % period]. That covers a scalar, one
/// weight per class and one per element without a copy; other broadcasts are written out first.
struct CyclicWeight {
  Tensor values;  // contiguous; undefined for a weight of 1
  std::int64_t period = 1;

  CyclicWeight() = default;
  CyclicWeight(const Tensor& weight, const Shape& input);
};

}  // namespace ct
