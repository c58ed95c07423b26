#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include <cotangent/nn/module.h>

namespace ct::nn::detail {

/// The shared part of a module.
struct ModuleState {
  std::string kind, settings;
  bool training = true;
  std::vector<std::shared_ptr<TensorSlot>> slots;  // parameters and buffers in the order of registration
  std::vector<Named<Module>> children;
  std::unique_ptr<ModuleExtra> extra;

  static ModuleState& of(const Module& module) { return module.state(); }
  static Module handle(std::shared_ptr<ModuleState> state) { return Module(std::move(state)); }

  /// Calls f(path, state) for `root` and every module below it, each once, parents first.
  template <class F>
  static void visit(const Module& root, F&& f) {
    std::unordered_set<const ModuleState*> seen;
    visit(root, std::string(), f, seen);
  }

 private:
  template <class F>
  static void visit(const Module& module, const std::string& path, F& f,
                    std::unordered_set<const ModuleState*>& seen) {
    ModuleState& state = of(module);
    if (!seen.insert(&state).second) return;
    f(path, module);
    for (const Named<Module>& child : state.children)
      visit(child.value, path.empty() ? child.name : path + '.' + child.name, f, seen);
  }
};

}  // namespace ct::nn::detail
