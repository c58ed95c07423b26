#pragma once

#include <cotangent/core/op_def.h>

namespace ct {

void matmul_forward_cpu(const Forward& f);
void matmul_backward_cpu(const Backward& b);
void matmul_forward_cuda(const Forward& f);
void matmul_backward_cuda(const Backward& b);

}  // namespace ct
