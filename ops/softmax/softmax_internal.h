#pragma once

#include <cotangent/core/op_def.h>

namespace ct::softmax_kernels {

struct Attrs {
  std::int64_t axis;
};

/// A contiguous tensor seen as [outer, n, inner] around an axis.
struct Extents {
  std::int64_t outer = 1, n = 1, inner = 1;
};
inline Extents extents(const char* op, const Shape& shape, std::int64_t axis) {
  const int a = wrap_axis(op, axis, shape.size());
  Extents e;
  for (int i = 0; i < shape.size(); ++i) (i < a ? e.outer : i == a ? e.n : e.inner) *= shape[i];
  return e;
}

/// The kernels of softmax, and with `logarithm` those of log_softmax.

/// dx = factor * y (g - sum(g y)) along the last axis: the gradient of y = softmax(factor * x + constant).
/// All of one dtype, contiguous. For ops that contain a softmax.
void gradient_cpu(const char* op, const Tensor& g, const Tensor& y, const Tensor& dx, double factor);
void gradient_cuda(const char* op, const Tensor& g, const Tensor& y, const Tensor& dx, double factor);

}  // namespace ct::softmax_kernels
