#pragma once

#include <cotangent/core/op/op_def.h>

namespace ct {

struct ConcatAttrs {
  std::int64_t axis;
};

/// Place of input i of concat (or stack) in the output.
class ConcatParts {
 public:
  ConcatParts(const Tensor& out, std::int64_t axis, bool stacked)
      : out_(out),
        axis_(static_cast<int>(axis < 0 ? axis + out.dim() : axis)),
        stacked_(stacked),
        step_(out.strides()[axis_]) {}

  /// The place of the next input.
  Tensor next(const Tensor& input) {
    Strides strides = out_.strides();
    if (stacked_) strides.erase(axis_);
    const std::int64_t offset = offset_;
    offset_ += step_ * length(input);
    return Tensor::from_storage(out_.impl()->storage, input.shape(), strides, offset, out_.dtype());
  }
  std::int64_t length(const Tensor& input) const { return stacked_ ? 1 : input.shape()[axis_]; }
  int axis() const { return axis_; }
  /// Elements of the output from one index along the axis to the next.
  std::int64_t step() const { return step_; }

 private:
  const Tensor& out_;
  int axis_;
  bool stacked_;
  std::int64_t step_;
  std::int64_t offset_ = 0;
};

/// Both devices hand over views of the cotangent.
void concat_gradients(const Backward&);
void stack_gradients(const Backward&);

}  // namespace ct
