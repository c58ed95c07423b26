#pragma once

#include <span>
#include <vector>

#include <cotangent/nn/optim/grouped.h>

namespace ct::optim {

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool master_weights = true;  ///< keep f16 and bf16 parameters in f32 as well (see Optimizer)
};
CT_API void check_options(const char* op, const LionOptions& options);
extern template class CT_API GroupedOptimizer<LionOptions>;

/// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023):
///     d <- sign(beta1 m + (1 - beta1) g)
///     p <- (1 - lr weight_decay) p - lr d
///     m <- beta2 m + (1 - beta2) g
class CT_API Lion final : public GroupedOptimizer<LionOptions> {
 public:
  /// Throws ValueError for options out of range (lr, weight_decay finite and >= 0; 0 <= beta < 1) and without
  /// parameters.
  explicit Lion(std::vector<Tensor> params, const LionOptions& options = {});
  explicit Lion(std::vector<ParamGroup<LionOptions>> groups);

 private:
  int moment_count(int) const override { return 1; }
  const char* moment_name(int) const override { return "exp_avg"; }
  void update(int group, std::span<const int> members) override;
};

}  // namespace ct::optim
