#pragma once

#include <cotangent/ops/attention/attention_internal.h>

// The kernels on tensor cores. They return false, having done nothing, for calls that are not for them
// (dtypes, head dimensions, masks, layouts): the general kernels of attention_cuda.cu then do the work.

namespace ct::attention {

bool mma_forward(const Forward& f);
bool mma_backward(const Backward& b);

}  // namespace ct::attention
