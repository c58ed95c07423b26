#pragma once

#include <cotangent/core/op_def.h>

namespace ct::layer_norm_kernels {

template <bool kAdd>
void forward_cpu(const Forward& f);
template <bool kAdd>
void backward_cpu(const Backward& b);
template <bool kAdd>
void forward_cuda(const Forward& f);
template <bool kAdd>
void backward_cuda(const Backward& b);

}  // namespace ct::layer_norm_kernels
