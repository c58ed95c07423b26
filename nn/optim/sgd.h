#pragma once

#include <span>
#include <vector>

#include <cotangent/nn/optim/optimizer.h>

namespace ct::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool master_weights = true;  ///< keep f16 and bf16 parameters in f32 as well (see Optimizer)
};

/// Stochastic gradient descent, as torch.optim.SGD:
///     g <- grad + weight_decay p
///     b <- g at the first step, else momentum b + (1 - dampening) g      (with momentum)
///     g <- g + momentum b (nesterov) or b
///     p <- p - lr g
class CT_API SGD final : public Optimizer {
 public:
  /// Throws ValueError for options out of range (lr, momentum, weight_decay finite and >= 0; nesterov needs
  /// momentum > 0 and no dampening, which is finite) and without parameters.
  explicit SGD(std::vector<Tensor> params, SGDOptions options = {});
  explicit SGD(std::vector<ParamGroup<SGDOptions>> groups);
  void add_param_group(ParamGroup<SGDOptions> group);
  /// As they were given: the learning rate of this moment is lr(group).
  const SGDOptions& options(int group = 0) const {
    params(group);  // throws IndexError if there is no such group
    return options_[static_cast<std::size_t>(group)];
  }

 private:
  int moment_count(int group) const override { return options(group).momentum != 0 ? 1 : 0; }
  const char* moment_name(int) const override { return "momentum_buffer"; }
  bool keeps_master(int group) const override { return options(group).master_weights; }
  bool takes_gate() const override { return true; }
  void update(int group, std::span<const int> members) override;

  std::vector<SGDOptions> options_;
};

}  // namespace ct::optim
