#pragma once

#include <cotangent/core/op/op_def.h>

// linear's kernels on the CPU, for the ops that begin with them.

namespace ct::linear_impl {

void forward_cpu(const Forward& f);
void backward_cpu(const Backward& b);

}  // namespace ct::linear_impl
