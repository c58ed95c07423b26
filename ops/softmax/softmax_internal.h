#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/rows/extents.h>

namespace ct::softmax_impl {

struct Attrs {
  std::int64_t axis;
};

using rows::extents;
using rows::Extents;

/// dx = factor * y (g - sum(g y)) along the last axis: the gradient of y = softmax(factor * x + constant).
/// All of one dtype, contiguous. For ops that contain a softmax.
void gradient_cpu(const char* op, const Tensor& g, const Tensor& y, const Tensor& dx, double factor);
void gradient_cuda(const char* op, const Tensor& g, const Tensor& y, const Tensor& dx, double factor);

}  // namespace ct::softmax_impl
