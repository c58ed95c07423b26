#include <cotangent/nn/optim/rmsprop.h>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/nn/optim/step_internal.h>

namespace ct::optim {
template class GroupedOptimizer<RMSpropOptions>;

RMSprop::RMSprop(std::vector<Tensor> params, const RMSpropOptions& options)
    : GroupedOptimizer("RMSprop", std::move(params), options) {}
RMSprop::RMSprop(std::vector<ParamGroup<RMSpropOptions>> groups)
    : GroupedOptimizer("RMSprop", std::move(groups)) {}

void check_options(const char* op, const RMSpropOptions& o) {
  CT_CHECK(o.alpha >= 0 && o.alpha <= 1, ValueError, op, "alpha is ", o.alpha, "; it must lie in [0, 1]");
  detail::check_not_negative(op, "eps", o.eps);
  detail::check_not_negative(op, "weight_decay", o.weight_decay);
  detail::check_not_negative(op, "momentum", o.momentum);
}

const char* RMSprop::moment_name(int moment) const {
  constexpr const char* names[] = {"square_avg", "momentum_buffer", "grad_avg"};
  return names[moment];
}

void RMSprop::update(int group, std::span<const int> members) {
  Group& g = group_at(group);
  const RMSpropOptions& o = options(group);
  internal::step(g, members, update::RmspropRule{{1, o.alpha, o.eps, o.weight_decay, o.momentum, o.centered}},
                 gate());
}

}  // namespace ct::optim
