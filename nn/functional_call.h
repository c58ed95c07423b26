#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/autograd/recompute.h>
#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>

namespace ct::nn {

namespace detail {
/// While one lives, what this thread asks a module's parameters and buffers for is these tensors.
class CT_API Substitution {
 public:
  [[nodiscard]] Substitution(const Module& module, const std::vector<Named<Tensor>>& tensors);
  ~Substitution();
  Substitution(const Substitution&) = delete;
  Substitution& operator=(const Substitution&) = delete;

 private:
  std::shared_ptr<const ct::detail::ForwardScope> scope_;
  const ct::detail::ForwardScope* previous_;
};
}  // namespace detail

/// A call of the module with these tensors in place of its parameters and buffers, by their paths ("in.weight"), as
/// torch.func.functional_call: gradients flow into them, so they may be the results of other ops. A step of MAML:
///
///     auto fast = net.named_parameters();
///     auto grads = ct::grad(loss(net(x), t), net.parameters(), {.create_graph = true});
///     for (std::size_t i = 0; i < fast.size(); ++i) fast[i].value = fast[i].value - 0.1 * grads[i];
///     loss(ct::nn::functional_call(net, fast, x2), t2).backward();   // through the step, into net's parameters
///
/// A name that is not given keeps the module's own tensor. A tensor that the module has under several names is replaced
/// under all of them by what is given for one. The module itself is unchanged, whatever the forward pass does: what it writes
/// into a buffer in place (running means) goes into the tensor given for it, if there is one. Only this thread sees the
/// tensors, also where ct::recompute() runs a part of the pass again in backward; several threads may call one module
/// with tensors of their own.
///
/// Throws ValueError for a name that the module has not (with the nearest that it has), for an undefined tensor, and for
/// two tensors for one that has two names; ShapeError and DeviceError for a tensor unlike the module's own.
template <class M, class... Args>
requires std::derived_from<std::remove_cvref_t<M>, Module>
auto functional_call(M&& module, const std::vector<Named<Tensor>>& tensors, Args&&... args) {
  const detail::Substitution substitution(module, tensors);
  return call(module, std::forward<Args>(args)...);
}
template <class M, std::same_as<StateDict> Dict, class... Args>
requires std::derived_from<std::remove_cvref_t<M>, Module>
auto functional_call(M&& module, const Dict& tensors, Args&&... args) {
  std::vector<Named<Tensor>> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor});
  return functional_call(module, list, std::forward<Args>(args)...);
}

}  // namespace ct::nn
