#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <cotangent/nn/module.h>

namespace ct::nn::detail {

/// A name in a module and what it stands for: a child, or else a tensor.
struct Entry {
  std::string name;
  std::shared_ptr<ModuleState> child;
  std::shared_ptr<TensorSlot> slot;
  bool persistent = true;
  ModuleState* owner = nullptr;  // null when the name stands for something else now, or the module is gone
  std::atomic<int> holders = 0;  // handles that are registered members

  Entry(std::string name, std::shared_ptr<ModuleState> child, std::shared_ptr<TensorSlot> slot,
        bool persistent, ModuleState* owner)
      : name(std::move(name)),
        child(std::move(child)),
        slot(std::move(slot)),
        persistent(persistent),
        owner(owner) {}
};

/// The shared part of a module.
struct ModuleState {
  std::string kind, settings;
  bool training = true;
  std::vector<std::shared_ptr<Entry>> slots;  // parameters and buffers in the order of registration
  std::vector<std::shared_ptr<Entry>> children;
  std::unique_ptr<ModuleExtra> extra;
  std::shared_ptr<ForwardHooks> hooks;  // null where there never was one

  ModuleState() = default;
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;
  ~ModuleState();

  static ModuleState& of(const Module& module) { return module.state(); }
  static const std::shared_ptr<ModuleState>& shared(const Module& module) { return module.state_; }
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
    for (const auto& child : state.children)
      visit(handle(child->child), path.empty() ? child->name : path + '.' + child->name, f, seen);
  }
};

/// Throws AutogradError unless the tensor can be the parameter `name`.
void check_leaf(const char* op, const std::string& name, const Tensor& tensor);
/// Throws DTypeError or AutogradError unless the tensor can be the parameter `name`; it then requires a gradient.
void prepare_parameter(const char* op, const std::string& name, Tensor& tensor);

/// Lets the entry stand for this module from now on. Throws Error if `child` was moved from, ValueError if it
/// contains the module that has the entry; nothing is changed then.
void replace_child(Entry& entry, const std::shared_ptr<ModuleState>& child);

}  // namespace ct::nn::detail
