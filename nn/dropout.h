#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>

namespace ct::nn {

/// In training, sets each element to 0 with probability p and multiplies the others by 1 / (1 - p); in
/// evaluation, gives its input back. Each call takes one draw of the default generator.
/// Throws ValueError unless 0 <= p <= 1.
class CT_API Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }
  double p() const { return p_; }

 private:
  double p_;
};

}  // namespace ct::nn
