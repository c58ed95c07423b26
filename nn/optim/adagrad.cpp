#include <cotangent/nn/optim/adagrad.h>

#include <cotangent/core/base/check_number_internal.h>
#include <cotangent/nn/optim/step_internal.h>

namespace ct::optim {
template class GroupedOptimizer<AdagradOptions>;

Adagrad::Adagrad(std::vector<Tensor> params, const AdagradOptions& options)
    : GroupedOptimizer("Adagrad", std::move(params), options) {}
Adagrad::Adagrad(std::vector<ParamGroup<AdagradOptions>> groups)
    : GroupedOptimizer("Adagrad", std::move(groups)) {}

void check_options(const char* op, const AdagradOptions& o) {
  detail::check_not_negative(op, "lr_decay", o.lr_decay);
  detail::check_not_negative(op, "weight_decay", o.weight_decay);
  detail::check_not_negative(op, "initial_accumulator_value", o.initial_accumulator_value);
  detail::check_not_negative(op, "eps", o.eps);
}

void Adagrad::update(int group, std::span<const int> members) {
  Group& g = group_at(group);
  const AdagradOptions& o = options(group);
  internal::step(g, members,
                 update::AdagradRule{{1, o.lr_decay, o.eps, o.weight_decay, o.initial_accumulator_value}},
                 gate());
}

}  // namespace ct::optim
