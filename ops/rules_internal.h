#pragma once

#include <cotangent/core/op/op_call.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/ops/loss/reduction.h>

// Helpers for OpDef::rule, all recorded on the tape, and checks that several shape rules share.

namespace ct::rules {

/// `grad` summed over the axes along which a tensor of `shape` was broadcast to its shape: sum_to() on the
/// tape.
Tensor unbroadcast(const Tensor& grad, const Shape& shape);

/// `x` with zeros before and after it along an axis.
Tensor padded(const Tensor& x, std::int64_t axis, std::int64_t before, std::int64_t after);

/// 1 where index[..., i, ...] is the place along a new axis of `count` in front of `axis`, else 0, in `dtype`.
Tensor one_hot(const Tensor& index, std::int64_t axis, std::int64_t count, DType dtype);

/// The rule of an op with values and, as output 1, where along `axis` of input 0 they were found: each cotangent goes there.
void found_at(const Backward& b, std::int64_t axis);

/// The cotangent of each element of a loss over `shape`, from that of the loss: g, g / divisor (mean) or g.
/// `divisor` is a tensor of rank 0, or undefined for the number of elements.
Tensor spread(const Tensor& g, Reduction reduction, const Shape& shape, const Tensor& divisor = {});

/// Over the last `axes` axes: the mean, those axes kept with size 1.
Tensor row_mean(const Tensor& x, std::int64_t axes);

/// Throws ShapeError where `t`, by its name, has as many axes as there can be: the result is to have one more.
void check_room_for_axis(const char* op, const char* name, const Tensor& t);

}  // namespace ct::rules
