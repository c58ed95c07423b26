#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
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
        owner(owner) {
    count(1);
  }
  ~Entry() { count(-1); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  void set_child(std::shared_ptr<ModuleState> module) {
    count(-1);
    child = std::move(module);
    count(1);
  }

 private:
  void count(int n) const;  // as a name of the child
};

/// A layer that lies in a struct and is no part of its module.
struct Stray {
  std::weak_ptr<ModuleState> state;
  std::string holder, what;
};

/// Hooks that count how often they were changed.
struct CountedHooks : ForwardHooks {
  std::uint64_t changes = 0;
};

/// The shared part of a module.
struct ModuleState {
  std::string kind, settings;
  bool training = true;
  std::vector<std::shared_ptr<Entry>> slots;  // parameters and buffers in the order of registration
  std::vector<std::shared_ptr<Entry>> children;
  std::unique_ptr<ModuleExtra> extra;
  std::shared_ptr<CountedHooks> hooks;  // null where there never was one

  // Handles to the module, guarded by the mutex of module_seats.cpp.
  struct Handle {
    const Module* at;
    std::thread::id thread;
  };
  std::vector<Handle> handles;
  std::size_t reach = 0;  // the largest reach_of() a handle that names were registered through

  std::vector<Stray> strays;           // of the struct, seen when it was added to another
  std::atomic<std::size_t> asked = 0;  // the reach that find_strays() has looked at
  std::weak_ptr<ModuleState> origin;   // what it is a clone of, and that is no clone
  std::atomic<int> parents = 0;        // names that stand for it

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

// ---- Handles that live (module_seats.cpp) ---------------------------------------------------------------
void enroll(const Module& handle);
void withdraw(const Module& handle);
/// Notes that a handle to `from` is one to the state that it has now.
void rebind(const Module& handle, ModuleState* from);
/// The handles that live and begin in [from, to), in order.
std::vector<const Module*> handles_in(const void* from, const void* to);
/// The structs that are handles to the module of this one, as far as this thread made them; and this one.
std::vector<const Module*> structs_of(const Module& handle);
/// Notes that names are registered through this handle.
void note_reach(const Module& handle);
/// Bytes from the handle to the end of the struct that it is the base of, as far as that is constructed.
std::size_t reach_of(const Module& handle);

/// In a CloneScope: what the entry has become, or null.
std::shared_ptr<Entry> clone_of(const std::shared_ptr<Entry>& entry);

// ---- Layers that were never added (module_strays.cpp) ---------------------------------------------------
/// Strays in the struct of this handle, or in a vector there, that are no part of its module.
std::vector<Stray> find_strays(const Module& holder);
/// Writes a warning, once, for each in the structs of the tree that has something to train.
void report_strays(const Module& root);

/// f(path, entry) for every parameter and buffer that is there; `once` passes over a tensor seen before.
template <class F>
void visit_slots(const Module& root, bool once, F&& f) {
  std::unordered_set<const TensorImpl*> seen;
  const auto join = [](const std::string& path, const std::string& name) {
    return path.empty() ? name : path + '.' + name;
  };
  const auto visit_module = [&](const std::string& path, const Module& module) {
    for (const auto& entry : ModuleState::of(module).slots) {
      const Tensor& tensor = entry->slot->tensor;
      if (tensor.defined() && (!once || seen.insert(tensor.impl()).second))
        f(join(path, entry->name), *entry);
    }
  };
  if (once) return ModuleState::visit(root, visit_module);
  // Every path, also those of a module that is registered twice.
  const std::function<void(const std::string&, const Module&)> walk = [&](const std::string& path,
                                                                          const Module& m) {
    visit_module(path, m);
    for (const auto& child : ModuleState::of(m).children)
      walk(join(path, child->name), ModuleState::handle(child->child));
  };
  walk({}, root);
}

/// Throws AutogradError unless the tensor can be the parameter `name`.
void check_leaf(const char* op, const std::string& name, const Tensor& tensor);
/// Throws DTypeError or AutogradError unless the tensor can be the parameter `name`; it then requires a gradient.
void prepare_parameter(const char* op, const std::string& name, Tensor& tensor);

/// Lets the entry stand for this module from now on. Throws Error if `child` was moved from, ValueError if it
/// contains the module that has the entry; nothing is changed then.
void replace_child(Entry& entry, const std::shared_ptr<ModuleState>& child);

/// Gives t the data of `source`, under every handle to it (module_convert.cpp).
void take_place(const Tensor& t, const Tensor& source);

}  // namespace ct::nn::detail
