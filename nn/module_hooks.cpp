#include <atomic>
#include <utility>

#include <cotangent/autograd/node.h>
#include <cotangent/core/base/error.h>
#include <cotangent/nn/module_internal.h>

// Functions around the calls of a module. Apart from module.cpp, so that only programs with hooks link it.

namespace ct::nn {
namespace {

struct Hooks final : detail::CountedHooks {
  HookList<ForwardPreHook> pre;
  HookList<ForwardHook> post;

  Tensor before(const Module& module, Tensor input) const override {
    pre.each([&](const ForwardPreHook& hook) {
      if (Tensor changed = hook(module, input); changed.defined()) input = std::move(changed);
    });
    return input;
  }
  Tensor after(const Module& module, const Tensor& input, Tensor output) const override {
    post.each([&](const ForwardHook& hook) {
      if (Tensor changed = hook(module, input, output); changed.defined()) output = std::move(changed);
    });
    return output;
  }
  void remove(std::uint64_t id) override {
    pre.remove(id);
    post.remove(id);
    ++changes;
  }
};

std::atomic<std::uint64_t> next{1};  // one count for both kinds: remove() looks into both lists

template <class Hook>
HookHandle register_hook(std::shared_ptr<detail::CountedHooks>& of_module, const char* op,
                         HookList<Hook> Hooks::*list, Hook hook) {
  CT_CHECK(hook, ValueError, op, "got an empty function; pass one that takes the module and its tensors");
  const std::uint64_t id = next.fetch_add(1, std::memory_order_relaxed);
  if (!of_module) of_module = std::make_shared<Hooks>();
  (static_cast<Hooks&>(*of_module).*list).add(id, std::move(hook));
  ++of_module->changes;
  return HookHandle(of_module, id);
}

}  // namespace

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  return register_hook(state().hooks, "register_forward_pre_hook", &Hooks::pre, std::move(hook));
}
HookHandle Module::register_forward_hook(ForwardHook hook) {
  return register_hook(state().hooks, "register_forward_hook", &Hooks::post, std::move(hook));
}

}  // namespace ct::nn
