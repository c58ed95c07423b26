#pragma once

#include <span>
#include <vector>

#include <cotangent/nn/optim/grouped.h>

namespace ct::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool master_weights = true;  ///< keep f16 and bf16 parameters in f32 as well (see Optimizer)
};
CT_API void check_options(const char* op, const AdagradOptions& options);
extern template class CT_API GroupedOptimizer<AdagradOptions>;

/// Adagrad (Duchi, Hazan and Singer, 2011), as torch.optim.Adagrad. At step t of a parameter:
///     g <- grad + weight_decay p
///     s <- s + g^2, beginning with initial_accumulator_value
///     p <- p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
class CT_API Adagrad final : public GroupedOptimizer<AdagradOptions> {
 public:
  /// Throws ValueError for options out of range (all finite and >= 0) and without parameters.
  explicit Adagrad(std::vector<Tensor> params, const AdagradOptions& options = {});
  explicit Adagrad(std::vector<ParamGroup<AdagradOptions>> groups);

 private:
  int moment_count(int) const override { return 1; }
  const char* moment_name(int) const override { return "sum"; }
  void update(int group, std::span<const int> members) override;
};

}  // namespace ct::optim
