#include <cotangent/nn/optim/sgd.h>

#include <cotangent/core/check_number_internal.h>
#include <cotangent/nn/optim/multi_tensor_internal.h>

namespace ct::optim {

SGD::SGD(std::vector<Tensor> params, SGDOptions options) : Optimizer("SGD") {
  add_param_group({std::move(params), options});
}
SGD::SGD(std::vector<ParamGroup<SGDOptions>> groups) : Optimizer("SGD") {
  check_has_groups(groups.size());
  for (auto& group : groups) add_param_group(std::move(group));
}

void SGD::add_param_group(ParamGroup<SGDOptions> group) {
  const SGDOptions& o = group.options;
  detail::check_not_negative(name(), "momentum", o.momentum);
  detail::check_finite(name(), "dampening", o.dampening);
  detail::check_not_negative(name(), "weight_decay", o.weight_decay);
  CT_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), ValueError, name(), "nesterov with momentum ",
           o.momentum, " and dampening ", o.dampening, "; it needs momentum > 0 and dampening 0");
  options_.reserve(options_.size() + 1);  // both or neither
  add_group(std::move(group.params), o.lr);
  options_.push_back(o);
}

void SGD::update(int group, std::span<const int> members) {
  Group& g = group_at(group);
  const SGDOptions& o = options(group);
  std::vector<internal::Entry>& entries = internal::scratch_entries();
  for (const int member : members) {
    const auto i = static_cast<std::size_t>(member);
    internal::Entry& e = entries.emplace_back();
    const Tensor& master = g.states[i].master;
    e.param = (master.defined() ? master : g.params[i]).raw_data();
    if (master.defined()) e.copy = g.params[i].raw_data();
    e.grad = g.grads[i].raw_data();
    e.count = g.params[i].numel();
    if (o.momentum != 0) e.moments[0] = g.states[i].moments[0].raw_data();
    e.scale[0] = g.states[i].step == 1 ? 1 : 0;
  }
  const Tensor& first = g.params[static_cast<std::size_t>(members[0])];
  const internal::SgdRule rule{g.lr, o.momentum, o.dampening, o.weight_decay, o.nesterov};
  internal::apply_rule(name(), first.device(), first.dtype(), entries, rule, gate());
}

}  // namespace ct::optim
