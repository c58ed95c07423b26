#pragma once

#include <cstdint>

#include <cotangent/core/op_def.h>
#include <cotangent/ops/reduction.h>

namespace ct {

struct NllLossAttrs {
  Reduction reduction;
  std::int64_t ignore_index;
};

// Output 1, for Reduction::mean alone: the sum of the rows' weights, which the mean is divided by.
void nll_loss_forward_cpu(const Forward& f);
void nll_loss_backward_cpu(const Backward& b);
void nll_loss_forward_cuda(const Forward& f);
void nll_loss_backward_cuda(const Backward& b);

}  // namespace ct
