#pragma once

#include <span>
#include <utility>
#include <vector>

#include <cotangent/nn/optim/grouped.h>

namespace ct::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool master_weights = true;  ///< keep f16 and bf16 parameters in f32 as well (see Optimizer)
};

CT_API void check_options(const char* op, const AdamOptions& options);
extern template class CT_API GroupedOptimizer<AdamOptions>;

/// Adam (Kingma and Ba, 2015), as torch.optim.Adam. At step t of a parameter:
///     g <- grad + weight_decay p
///     m <- m + (1 - beta1) (g - m),    v <- beta2 v + (1 - beta2) g^2
///     p <- p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// With amsgrad the largest v so far takes v's place in the last line.
class CT_API Adam : public GroupedOptimizer<AdamOptions> {
 public:
  /// Throws ValueError for options out of range (lr, eps, weight_decay finite and >= 0; 0 <= beta < 1) and
  /// without parameters.
  explicit Adam(std::vector<Tensor> params, const AdamOptions& options = {});
  explicit Adam(std::vector<ParamGroup<AdamOptions>> groups);

 protected:
  template <class Params, class... Options>
  Adam(bool decoupled, const char* name, Params params, const Options&... options)
      : GroupedOptimizer(name, std::move(params), options...), decoupled_(decoupled) {}

 private:
  int moment_count(int group) const override { return options(group).amsgrad ? 3 : 2; }
  const char* moment_name(int moment) const override;
  void update(int group, std::span<const int> members) override;

  bool decoupled_ = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool master_weights = true;
  operator AdamOptions() const { return {lr, beta1, beta2, eps, weight_decay, amsgrad, master_weights}; }
};

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as torch.optim.AdamW: p <- (1 - lr
/// weight_decay) p before the step, and the gradient is left alone. Its default is 0.01.
class CT_API AdamW final : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> params, const AdamWOptions& options = {});
  explicit AdamW(std::vector<ParamGroup<AdamWOptions>> groups);
  void add_param_group(ParamGroup<AdamWOptions> group);
};

}  // namespace ct::optim
