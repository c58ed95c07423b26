#pragma once

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/engine/fold/gradients.h>
#include <cotangent/ops/engine/fold/plan.h>
#include <cotangent/ops/engine/fold/sum.h>

namespace ct::reduce {

using namespace fold;

/// Attributes of every reduction.
struct Attrs {
  Dims axes;  // empty: all
  bool keepdim = false;
  double number = 0;      // var, std: the correction; norm: its order
  bool converts = false;  // sum, mean, prod: the result has dtype `dtype`
  DType dtype = DType::f32;
};

enum class Kind : std::uint8_t {
  sum,
  mean,
  prod,
  amax,
  amin,
  any,
  all,
  max,
  min,
  argmax,
  argmin,
  var,
  std,
  norm,
  logsumexp
};

/// The axes as a mask; all axes if none is named. Throws ShapeError.
AxisMask axis_mask(const char* op, const Dims& axes, int rank);

/// The backward pass of sum and mean: the cotangent, divided by the count for a mean, in the input's dtype, repeated
/// along the reduced axes by strides of 0. Nothing of the input's size is written.
void spread_sum(Kind kind, const Backward& b,
                void (*sum)(const Tensor&, AxisMask, const Tensor&, double, bool));

/// Arguments of the other kinds' backward kernels; see engine/fold/gradients.h. All tensors but x
/// have the outputs' number of elements and are contiguous, of the type that x is folded in (aux of
/// Gradient::position: i64). x and dx are contiguous.
struct GradientCall {
  Gradient kind;
  GradientSettings settings;
  Tensor x;  // undefined for Gradient::position
  Tensor g, y, aux;
  AxisMask mask;
  Tensor dx;
};
void gradient_cuda(const GradientCall& call);

/// A contiguous copy in the type that t is folded in (f32 or f64); t itself if it is one.
Tensor in_fold_type(const Tensor& t, void (*sum)(const Tensor&, AxisMask, const Tensor&, double, bool));

/// The product of the other factors and the zeros (prod), or the ties (amax, amin, norms of infinite order).
struct Side {
  Tensor value, aux;
};
Side side_cuda(const Tensor& x, AxisMask mask, Gradient kind, bool smallest);

/// The backward pass of every kind but sum and mean, in terms of a device's functions above.
struct DeviceFunctions {
  void (*sum)(const Tensor&, AxisMask, const Tensor&, double, bool);
  Side (*side)(const Tensor&, AxisMask, Gradient, bool);
  void (*gradient)(const GradientCall&);
};
void backward_by(Kind kind, const Backward& b, const DeviceFunctions& device);

/// A walk over a contiguous tensor together with the outputs that its elements belong to: element i has
/// the coordinates that come out of dividing i by the sizes, inner axis first.
struct Spread {
  int rank = 0;
  std::int64_t size[kMaxRank];
  std::int64_t output_stride[kMaxRank];   // 0 along reduced axes
  std::int64_t reduced_stride[kMaxRank];  // what a step adds to the number within the output; 0 if kept
};
Spread make_spread(const Shape& shape, AxisMask mask);

}  // namespace ct::reduce
