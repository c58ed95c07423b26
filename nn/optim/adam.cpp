#include <cotangent/nn/optim/adam.h>

#include <cmath>

#include <cotangent/core/check_number_internal.h>
#include <cotangent/nn/optim/multi_tensor_internal.h>

namespace ct::optim {

Adam::Adam(std::vector<Tensor> params, AdamOptions options) : Adam("Adam", false) {
  add_param_group({std::move(params), options});
}
Adam::Adam(std::vector<ParamGroup<AdamOptions>> groups) : Adam("Adam", false) {
  check_has_groups(groups.size());
  for (auto& group : groups) add_param_group(std::move(group));
}

AdamW::AdamW(std::vector<Tensor> params, AdamWOptions options) : Adam("AdamW", true) {
  Adam::add_param_group({std::move(params), options});
}
AdamW::AdamW(std::vector<ParamGroup<AdamWOptions>> groups) : Adam("AdamW", true) {
  check_has_groups(groups.size());
  for (auto& group : groups) add_param_group(std::move(group));
}
void AdamW::add_param_group(ParamGroup<AdamWOptions> group) {
  Adam::add_param_group({std::move(group.params), group.options});
}

void Adam::add_param_group(ParamGroup<AdamOptions> group) {
  const AdamOptions& o = group.options;
  CT_CHECK(o.beta1 >= 0 && o.beta1 < 1, ValueError, name(), "beta1 is ", o.beta1, "; it must lie in [0, 1)");
  CT_CHECK(o.beta2 >= 0 && o.beta2 < 1, ValueError, name(), "beta2 is ", o.beta2, "; it must lie in [0, 1)");
  detail::check_not_negative(name(), "eps", o.eps);
  detail::check_not_negative(name(), "weight_decay", o.weight_decay);
  options_.reserve(options_.size() + 1);  // both or neither
  add_group(std::move(group.params), o.lr);
  options_.push_back(o);
}

const char* Adam::moment_name(int moment) const {
  constexpr const char* names[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return names[moment];
}

void Adam::update(int group, std::span<const int> members) {
  Group& g = group_at(group);
  const AdamOptions& o = options(group);
  const int moments = moment_count(group);
  std::vector<internal::Entry>& entries = internal::scratch_entries();
  std::int64_t corrected = -1;  // the step that the next two belong to
  double step_size = 0, correction = 0;
  for (const int member : members) {
    const auto i = static_cast<std::size_t>(member);
    const ParamState& state = g.states[i];
    // Per parameter, since one that had no gradient for a while has made fewer steps.
    if (state.step != corrected) {
      corrected = state.step;
      step_size = g.lr / (1 - std::pow(o.beta1, static_cast<double>(state.step)));
      correction = 1 / std::sqrt(1 - std::pow(o.beta2, static_cast<double>(state.step)));
    }
    internal::Entry& e = entries.emplace_back();
    const Tensor& master = g.states[i].master;
    e.param = (master.defined() ? master : g.params[i]).raw_data();
    if (master.defined()) e.copy = g.params[i].raw_data();
    e.grad = g.grads[i].raw_data();
    e.count = g.params[i].numel();
    for (int m = 0; m < moments; ++m) e.moments[m] = state.moments[m].raw_data();
    e.scale[0] = step_size;
    e.scale[1] = correction;
  }
  const Tensor& first = g.params[static_cast<std::size_t>(members[0])];
  const internal::AdamRule rule{o.beta1, o.beta2, o.eps, o.weight_decay, g.lr, decoupled_, o.amsgrad};
  internal::apply_rule(name(), first.device(), first.dtype(), entries, rule, gate());
}

}  // namespace ct::optim
