#pragma once

#include <cotangent/core/op_def.h>

namespace ct {

void softsign_forward_cpu(const Forward& f);
void softsign_backward_cpu(const Backward& b);
void softsign_forward_cuda(const Forward& f);
void softsign_backward_cuda(const Backward& b);

}  // namespace ct
