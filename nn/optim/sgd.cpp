#include <cotangent/nn/optim/sgd.h>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/nn/optim/step_internal.h>

namespace ct::optim {
template class GroupedOptimizer<SGDOptions>;

SGD::SGD(std::vector<Tensor> params, const SGDOptions& options)
    : GroupedOptimizer("SGD", std::move(params), options) {}
SGD::SGD(std::vector<ParamGroup<SGDOptions>> groups) : GroupedOptimizer("SGD", std::move(groups)) {}

void check_options(const char* op, const SGDOptions& o) {
  detail::check_not_negative(op, "momentum", o.momentum);
  detail::check_finite(op, "dampening", o.dampening);
  detail::check_not_negative(op, "weight_decay", o.weight_decay);
  CT_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), ValueError, op, "nesterov with momentum ",
           o.momentum, " and dampening ", o.dampening, "; it needs momentum > 0 and dampening 0");
}

void SGD::update(int group, std::span<const int> members) {
  Group& g = group_at(group);
  const SGDOptions& o = options(group);
  internal::step(g, members, update::SgdRule{{1, o.momentum, o.dampening, o.weight_decay, o.nesterov}},
                 gate());
}

}  // namespace ct::optim
