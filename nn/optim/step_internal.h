#pragma once

#include <span>

#include <cotangent/nn/optim/step_gate.h>
#include <cotangent/ops/update/update_internal.h>

namespace ct::optim::internal {

/// Memory for a step of so many parameters.
inline void reserve_step(std::size_t params) {
  many::reserve_scratch(params, update::kShared + params * (update::kFirstMoment + many::kMaxMoments));
}

/// A step of an optimizer's group by a rule (ops/update/rules_internal.h), of the members that update() was given.
template <class Group, class Rule>
void step(const Group& g, std::span<const int> members, const Rule& rule, const StepGate& gate) {
  const Tensor none;
  std::vector<const Tensor*>& inputs = many::scratch_inputs();
  for (const Tensor* shared : {&gate.found_inf, &gate.inverse_scale, &g.steps}) inputs.push_back(shared);
  for (const int member : members) {
    const auto i = static_cast<std::size_t>(member);
    const auto& state = g.states[i];
    inputs.push_back(&g.params[i]);
    inputs.push_back(&g.grads[i]);
    inputs.push_back(&state.master);
    for (int m = 0; m < Rule::kMost; ++m)
      inputs.push_back(m < rule.moment_count() ? &state.moments[m] : &none);
  }
  ct::detail::write(update::op_of(rule), inputs, rule);
}

}  // namespace ct::optim::internal
