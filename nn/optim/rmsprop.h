#pragma once

#include <span>
#include <vector>

#include <cotangent/nn/optim/grouped.h>

namespace ct::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool master_weights = true;  ///< keep f16 and bf16 parameters in f32 as well (see Optimizer)
};
CT_API void check_options(const char* op, const RMSpropOptions& options);
extern template class CT_API GroupedOptimizer<RMSpropOptions>;

/// RMSprop (Tieleman and Hinton, 2012; centered: Graves, 2013), as torch.optim.RMSprop:
///     g <- grad + weight_decay p
///     v <- alpha v + (1 - alpha) g^2
///     a <- a + (1 - alpha) (g - a)                                 (centered)
///     d <- g / (sqrt(v - a^2) + eps),  without a if not centered
///     b <- momentum b + d,    p <- p - lr b
class CT_API RMSprop final : public GroupedOptimizer<RMSpropOptions> {
 public:
  /// Throws ValueError for options out of range (lr, alpha, eps, weight_decay, momentum finite and >= 0; alpha <= 1) and
  /// without parameters.
  explicit RMSprop(std::vector<Tensor> params, const RMSpropOptions& options = {});
  explicit RMSprop(std::vector<ParamGroup<RMSpropOptions>> groups);

 private:
  int moment_count(int group) const override {
    return options(group).momentum != 0 || options(group).centered ? 3 : 1;
  }
  const char* moment_name(int moment) const override;
  void update(int group, std::span<const int> members) override;
};

}  // namespace ct::optim
