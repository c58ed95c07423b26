#pragma once

#include <span>

#include <cotangent/nn/optim/step_gate.h>
#include <cotangent/ops/update/update_internal.h>

namespace ct::optim::internal {

/// Memory for a step of so many parameters.
inline void reserve_step(std::size_t params) {
  many::reserve_scratch(params, update::kShared + params * (update::kFirstMoment + many::kMaxMoments));
}

/// Adds a parameter's turn to the inputs of a step; where `in` is false, one that sits it out.
template <class Rule, class Group>
void add_turn(std::vector<const Tensor*>& inputs, const Group& g, std::size_t i, const Rule& rule, bool in,
              const Tensor& none) {
  const auto& state = g.states[i];
  inputs.push_back(in ? &g.params[i] : &none);
  inputs.push_back(&g.grads[i]);
  inputs.push_back(&state.master);
  for (int m = 0; m < Rule::kMost; ++m) inputs.push_back(m < rule.moment_count() ? &state.moments[m] : &none);
}

/// A step of an optimizer's group by a rule (ops/update/rules_internal.h), of the members that update() was given, which are
/// in order. The rule's lr is a factor on the group's.
template <class Group, class Rule>
void step(const Group& g, std::span<const int> members, const Rule& rule, const StepGate& gate) {
  const Tensor none;
  const auto& on = g.on[g.now];
  std::vector<const Tensor*>& inputs = many::scratch_inputs();
  for (const Tensor* shared : {&gate.found_inf, &gate.inverse_scale, &on.lr, &on.steps})
    inputs.push_back(shared);
  for (std::size_t i = 0, k = 0; i < g.params.size(); ++i) {
    const bool in = k < members.size() && members[k] == static_cast<int>(i);
    add_turn(inputs, g, i, rule, in, none);
    k += in;
  }
  ct::detail::write(update::op_of(rule), inputs, rule);
}
/// The same of one parameter, whose steps the optimizer counts.
template <class Group, class Rule>
void step_one(const Group& g, int member, const Rule& rule) {
  const Tensor none;
  std::vector<const Tensor*>& inputs = many::scratch_inputs();
  for (const Tensor* shared : {&none, &none, &g.on[g.now].lr, &none}) inputs.push_back(shared);
  add_turn(inputs, g, static_cast<std::size_t>(member), rule, true, none);
  ct::detail::write(update::op_of(rule), inputs, rule);
}

}  // namespace ct::optim::internal
