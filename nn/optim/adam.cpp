#include <cotangent/nn/optim/adam.h>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/nn/optim/step_internal.h>

namespace ct::optim {
template class GroupedOptimizer<AdamOptions>;

Adam::Adam(std::vector<Tensor> params, const AdamOptions& options)
    : GroupedOptimizer("Adam", std::move(params), options) {}
Adam::Adam(std::vector<ParamGroup<AdamOptions>> groups) : GroupedOptimizer("Adam", std::move(groups)) {}

namespace {

std::vector<ParamGroup<AdamOptions>> with_adam_options(std::vector<ParamGroup<AdamWOptions>> groups) {
  std::vector<ParamGroup<AdamOptions>> out;
  for (auto& group : groups) out.push_back({std::move(group.params), group.options});
  return out;
}

}  // namespace

void check_options(const char* op, const AdamOptions& o) {
  CT_CHECK(o.beta1 >= 0 && o.beta1 < 1, ValueError, op, "beta1 is ", o.beta1, "; it must lie in [0, 1)");
  CT_CHECK(o.beta2 >= 0 && o.beta2 < 1, ValueError, op, "beta2 is ", o.beta2, "; it must lie in [0, 1)");
  detail::check_not_negative(op, "eps", o.eps);
  detail::check_not_negative(op, "weight_decay", o.weight_decay);
}

AdamW::AdamW(std::vector<Tensor> params, const AdamWOptions& options)
    : Adam(true, "AdamW", std::move(params), AdamOptions(options)) {}
AdamW::AdamW(std::vector<ParamGroup<AdamWOptions>> groups)
    : Adam(true, "AdamW", with_adam_options(std::move(groups))) {}
void AdamW::add_param_group(ParamGroup<AdamWOptions> group) {
  Adam::add_param_group({std::move(group.params), group.options});
}

const char* Adam::moment_name(int moment) const {
  constexpr const char* names[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return names[moment];
}

void Adam::update(int group, std::span<const int> members) {
  Group& g = group_at(group);
  const AdamOptions& o = options(group);
  internal::step(g, members,
                 update::AdamRule{{1, o.beta1, o.beta2, o.eps, o.weight_decay, decoupled_, o.amsgrad}},
                 gate());
}

}  // namespace ct::optim
