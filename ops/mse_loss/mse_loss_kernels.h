#pragma once

#include <cotangent/core/op_def.h>
#include <cotangent/ops/reduction.h>

namespace ct {

struct MseLossAttrs {
  Reduction reduction;
};

void mse_loss_forward_cpu(const Forward& f);
void mse_loss_backward_cpu(const Backward& b);
void mse_loss_forward_cuda(const Forward& f);
void mse_loss_backward_cuda(const Backward& b);

}  // namespace ct
