#include <cotangent/nn/optim/lion.h>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/nn/optim/step_internal.h>

namespace ct::optim {
template class GroupedOptimizer<LionOptions>;

Lion::Lion(std::vector<Tensor> params, const LionOptions& options)
    : GroupedOptimizer("Lion", std::move(params), options) {}
Lion::Lion(std::vector<ParamGroup<LionOptions>> groups) : GroupedOptimizer("Lion", std::move(groups)) {}

void check_options(const char* op, const LionOptions& o) {
  CT_CHECK(o.beta1 >= 0 && o.beta1 < 1, ValueError, op, "beta1 is ", o.beta1, "; it must lie in [0, 1)");
  CT_CHECK(o.beta2 >= 0 && o.beta2 < 1, ValueError, op, "beta2 is ", o.beta2, "; it must lie in [0, 1)");
  detail::check_not_negative(op, "weight_decay", o.weight_decay);
}

void Lion::update(int group, std::span<const int> members) {
  Group& g = group_at(group);
  const LionOptions& o = options(group);
  internal::step(g, members, update::LionRule{{1, o.beta1, o.beta2, o.weight_decay}}, gate());
}

}  // namespace ct::optim
