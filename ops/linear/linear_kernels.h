#pragma once

#include <cotangent/core/op_def.h>

namespace ct {

void linear_forward_cpu(const Forward& f);
void linear_backward_cpu(const Backward& b);
void linear_forward_cuda(const Forward& f);
void linear_backward_cuda(const Backward& b);

}  // namespace ct
