#include <cotangent/nn/optim/gradient_state.h>

#include <algorithm>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/error.h>
#include <cotangent/core/base/printable.h>

namespace ct::optim {

GradientState::GradientState(const nn::Module& module) : params_(module.named_parameters()) {}

StateDict GradientState::state_dict() const {
  StateDict state;
  for (const auto& [name, parameter] : params_)
    if (const Tensor grad = parameter.grad(); grad.defined()) state.set(name, grad);
  return state;
}

void GradientState::check_state_dict(const StateDict& state) const {
  for (const auto& [name, grad] : state) {
    const auto found = std::ranges::find(params_, name, &nn::Named<Tensor>::name);
    CT_CHECK(found != params_.end(), ValueError, "GradientState", "there is a gradient of ", printable(name),
             ", which the module does not have; load the state of the same model");
    CT_CHECK(grad.shape() == found->value.shape(), ValueError, "GradientState", "the gradient of ",
             printable(name), " is ", describe(grad), ", the parameter ", describe(found->value),
             "; their shapes must be equal");
  }
}

void GradientState::load_state_dict(const StateDict& state) {
  check_state_dict(state);
  const NoGrad no_grad;
  for (auto& [name, parameter] : params_) {
    const Tensor* saved = state.find(name);
    parameter.set_grad(saved ? saved->detach().to(parameter.device()).to(parameter.dtype()).clone()
                             : Tensor());
  }
}

}  // namespace ct::optim
