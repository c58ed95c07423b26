#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

#include <cotangent/nn/optim/step_gate.h>
#include <cotangent/ops/update/update_internal.h>

namespace ct::optim::internal {

/// Memory for a step of so many parameters.
inline void reserve_step(std::size_t params) {
  update::many::reserve_scratch(
      params, update::kShared + params * (update::kFirstMoment + update::many::kMaxMoments));
}

/// Inputs of a step, of which `next` is to be filled in.
struct Inputs {
  const Tensor none{};
  std::vector<const Tensor*>& list = update::many::scratch_inputs();
  const Tensor** next = nullptr;

  Inputs(std::size_t count, std::initializer_list<const Tensor*> shared) {
    list.resize(count);
    next = std::copy(shared.begin(), shared.end(), list.data());
  }
  /// Adds a parameter's turn; where `in` is false, of one that sits it out.
  template <class Rule, class Group>
  void add(const Group& g, std::size_t i, const Rule& rule, bool in) {
    const auto& state = g.states[i];
    *next++ = in ? &g.params[i] : &none;
    *next++ = &g.grads[i];
    *next++ = &state.master;
    for (int m = 0; m < Rule::kMost; ++m) *next++ = m < rule.moment_count() ? &state.moments[m] : &none;
  }
};

/// A step of an optimizer's group by a rule (ops/update/rules_internal.h), of the members that update() was given, which are
/// in order. The rule's lr is a factor on the group's.
template <class Group, class Rule>
void step(const Group& g, std::span<const int> members, const Rule& rule, const StepGate& gate) {
  const auto& on = g.on[g.now];
  const Tensor none;
  Inputs inputs(update::kShared + g.params.size() * update::kTurn<Rule>,
                {&gate.found_inf, &gate.inverse_scale, &on.lr, &on.steps, &none});
  for (std::size_t i = 0, k = 0; i < g.params.size(); ++i) {
    const bool in = k < members.size() && members[k] == static_cast<int>(i);
    inputs.add(g, i, rule, in);
    k += in;
  }
  ct::detail::write(update::op_of(rule), inputs.list, rule);
}
/// The same of one parameter, whose steps the optimizer counts.
template <class Group, class Rule>
void step_one(const Group& g, int member, const Rule& rule) {
  const Tensor none;
  Inputs inputs(update::kShared + update::kTurn<Rule>, {&none, &none, &g.on[g.now].lr, &none, &none});
  inputs.add(g, static_cast<std::size_t>(member), rule, true);
  ct::detail::write(update::op_of(rule), inputs.list, rule);
}

}  // namespace ct::optim::internal
