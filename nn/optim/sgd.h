#pragma once

#include <span>
#include <vector>

#include <cotangent/nn/optim/grouped.h>

namespace ct::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool master_weights = true;  ///< keep f16 and bf16 parameters in f32 as well (see Optimizer)
};

CT_API void check_options(const char* op, const SGDOptions& options);
extern template class CT_API GroupedOptimizer<SGDOptions>;

/// Stochastic gradient descent, as torch.optim.SGD:
///     g <- grad + weight_decay p
///     b <- g at the first step, else momentum b + (1 - dampening) g      (with momentum)
///     g <- g + momentum b (nesterov) or b
///     p <- p - lr g
class CT_API SGD final : public GroupedOptimizer<SGDOptions> {
 public:
  /// Throws ValueError for options out of range (lr, momentum, weight_decay finite and >= 0; nesterov needs
  /// momentum > 0 and no dampening, which is finite) and without parameters.
  explicit SGD(std::vector<Tensor> params, const SGDOptions& options = {});
  explicit SGD(std::vector<ParamGroup<SGDOptions>> groups);

 private:
  int moment_count(int group) const override { return options(group).momentum != 0 ? 1 : 0; }
  const char* moment_name(int) const override { return "momentum_buffer"; }
  void update(int group, std::span<const int> members) override;
};

}  // namespace ct::optim
