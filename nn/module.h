#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>
#include <cotangent/nn/first_tensor.h>
#include <cotangent/nn/parameter.h>
#include <cotangent/nn/state_dict.h>

namespace ct::nn {

class Module;

namespace detail {
struct ModuleState;

/// Data of a container beyond its children; lives with the module, not with a handle to it.
struct ModuleExtra {
  virtual ~ModuleExtra() = default;
  /// A copy made inside a CloneScope.
  virtual std::unique_ptr<ModuleExtra> clone() const = 0;
};

/// While one lives, copying a module, parameter or buffer of this thread makes a deep copy; two copies of
/// one original share theirs. This is how clone() reaches the members of the user's own structs.
class CT_API CloneScope {
 public:
  [[nodiscard]] CloneScope();
  ~CloneScope();
  CloneScope(const CloneScope&) = delete;
  CloneScope& operator=(const CloneScope&) = delete;

 private:
  void* previous_;
};
CT_API bool cloning();
CT_API std::shared_ptr<ModuleState> copy_or_clone(const std::shared_ptr<ModuleState>& state);
CT_API std::string readable_type_name(const std::type_info& type);

/// The forward hooks of one module. Only who registers one makes one: a program without hooks does not link what
/// runs them.
struct ForwardHooks {
  virtual ~ForwardHooks() = default;
  /// Results of the hooks on the input of a forward(), and on its output.
  virtual Tensor before(const Module& module, Tensor input) const = 0;
  virtual Tensor after(const Module& module, const Tensor& input, Tensor output) const = 0;
  virtual void remove(std::uint64_t id) = 0;
};
/// Null without hooks.
CT_API const ForwardHooks* hooks_of(const Module& module);
/// Throws ValueError if a hook gave this tensor where forward() takes or gives none.
CT_API void check_no_place(const Module& module, const Tensor& given);
}  // namespace detail

struct BufferOptions {
  /// False: not part of state_dict().
  bool persistent = true;
};
struct LoadOptions {
  /// False: keys that only one side has are passed over. Shapes must fit in any case.
  bool strict = true;
};
/// Names that load_state_dict() passed over.
struct LoadReport {
  std::vector<std::string> missing, unexpected;
};

/// Called with a module and its first input. A defined tensor takes the input's place.
using ForwardPreHook = std::function<Tensor(const class Module&, const Tensor& input)>;
/// Called with a module, its first input and its output. A defined tensor takes the output's place.
using ForwardHook = std::function<Tensor(const class Module&, const Tensor& input, const Tensor& output)>;
/// A hook that looks and changes nothing, and so gives nothing back, is one as well.
template <class F>
concept ForwardPreWatcher = std::is_void_v<std::invoke_result_t<F, const Module&, const Tensor&>>;
template <class F>
concept ForwardWatcher = std::is_void_v<std::invoke_result_t<F, const Module&, const Tensor&, const Tensor&>>;

namespace detail {
/// A hook that gives nothing back as one that gives no tensor; empty if it is.
template <class... T>
std::function<Tensor(T...)> watching(std::function<void(T...)> hook) {
  if (!hook) return {};
  return [hook = std::move(hook)](T... all) { return hook(all...), Tensor(); };
}
}  // namespace detail

/// A hook that was registered. It stays when this goes.
class CT_API HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<detail::ForwardHooks> hooks, std::uint64_t id)
      : hooks_(std::move(hooks)), id_(id) {}
  /// Removes the hook, from within a hook as well; it may be gone already, with its module too.
  void remove() {
    if (const auto hooks = hooks_.lock()) hooks->remove(id_);
  }

 private:
  std::weak_ptr<detail::ForwardHooks> hooks_;
  std::uint64_t id_ = 0;
};

/// A registration: what a module has under a name.
struct Member {
  enum class Kind { parameter, buffer, module };
  std::string name;
  Kind kind = Kind::parameter;
  Tensor tensor;           ///< undefined: none, or a module
  bool persistent = true;  ///< BufferOptions
};

/// A named thing in a list.
template <class T>
struct Named {
  std::string name;
  T value;
};

/// A part of a network: parameters, buffers and children, each with a name.
///
///     struct Mlp : nn::Module {
///       nn::Linear in  = add("in",  nn::Linear(784, 256));
///       nn::Linear out = add("out", nn::Linear(256, 10));
///       ct::Tensor forward(const ct::Tensor& x) const { return out(ct::relu(in(x))); }
///     };
///
/// `net.forward(x)` is what the struct computes; one that is called itself, `net(x)`, is an nn::Callable<Mlp>.
///
/// A layer that is a member and was never passed to add() is no part of the module: it is not trained, saved or moved.
/// parameters(), named_parameters(), state_dict() and load_state_dict() write a warning to std::cerr, once, that names the
/// layer and the struct, be it inside of another one; a vector of layers counts as well. Frozen layers, clones of the
/// module's own (target networks), parts of other modules, layers whose own parameters() were asked for before, and what is
/// held through a pointer or a reference are meant to stay outside.
///
/// A Module is a handle, like a Tensor. Copying or assigning one, or a struct derived from it, makes a second
/// handle to the same parameters, so a copy passed to a function or kept by a trainer stays in step with the
/// original; clone() makes an independent one. That holds for derived structs because their members are
/// handles as well: layers, Parameter and Buffer. Other members (an int, a flag) are copied as any member is
/// and do not stay in step: keep what changes during training in a buffer. A module that was moved from is
/// empty; using it throws Error.
///
/// Assigning to a member that add() made replaces the child, as in PyTorch: after `net.out = nn::Linear(256,
/// 5)`, forward(), parameters() and state_dict() know the new layer, which keeps its own mode and device.
/// Optimizers made before go on with the old parameters; make a new one. Other handles are bound anew by an
/// assignment and change nothing else: local variables, and structs as a whole (`a = b` makes a another
/// handle to b). While there are several handles to a struct, assigning to a member of one throws Error: the
/// others would go on with the old layer. That holds for members in structs of any size and depth, and in containers. What is
/// assigned must not contain the module (else ValueError).
///
/// Handles of one module may be used from several threads as long as no thread changes it (add, to, train,
/// load_state_dict) meanwhile.
class CT_API Module {
 public:
  Module();
  Module(const Module& other);
  Module(Module&& other) noexcept;
  Module& operator=(const Module& other);
  Module& operator=(Module&& other);
  /// The base alone of a struct that is more than a Module can't be assigned: throws Error for `base = nn::Linear(2, 5)`
  /// where `base` is a Module& to a layer. A handle that is no more than a Module takes anything.
  template <std::derived_from<Module> D>
  requires(!std::same_as<D, Module>) Module& operator=(const D& other) {
    check_only_base(typeid(D));
    return *this = static_cast<const Module&>(other);
  }
  virtual ~Module();
  // Deletes as ever. Of all virtual functions a compiler writes for each struct it is the one that knows the struct's
  // size, and asked for that it deletes nothing (detail::reach_of).
  static void operator delete(Module* module, std::destroying_delete_t, std::size_t size);
  static void operator delete(Module* module, std::destroying_delete_t, std::size_t size,
                              std::align_val_t align);

  // ---- Building -----------------------------------------------------------------------------------------
  // A name is not empty, contains no '.', and is used once among parameters, buffers and children; else
  // ValueError.

  /// Makes `child` a part of this module and gives back the handle to keep: what is assigned to that one
  /// later replaces the child. Throws ValueError if `child` contains this.
  template <std::derived_from<Module> T>
  [[nodiscard("keep the handle that add() gives: what is assigned to it replaces the child")]] T add(
      // NOLINTNEXTLINE(performance-unnecessary-value-param): the name is moved, which a template does not show
      std::string name, T child) {
    Module& handle = child;
    handle.seat_.settle(add_child(std::move(name), child, typeid(T)));
    return child;
  }
  /// Makes `tensor` a parameter; it requires a gradient from then on. An undefined tensor stands for "none"
  /// (no bias). Throws AutogradError unless it is a leaf, DTypeError unless it is floating.
  Parameter parameter(std::string name, Tensor tensor);
  /// Makes `tensor` a buffer.
  Buffer buffer(std::string name, Tensor tensor, BufferOptions options = {});

  // ---- Members ------------------------------------------------------------------------------------------
  // Depth first in the order of registration: own parameters, then those of the children. A tensor that is
  // registered in several places is listed once, under its first name.

  std::vector<Tensor> parameters() const;
  std::vector<Named<Tensor>> named_parameters() const;
  std::vector<Tensor> buffers() const;
  std::vector<Named<Tensor>> named_buffers() const;
  std::vector<Named<Module>> children() const;
  /// This module (name "") and all below it, each once.
  std::vector<Named<Module>> named_modules() const;
  /// The parameter or buffer of this path ("in.weight"). Throws ValueError if there is none.
  Tensor get(std::string_view path) const;
  /// The module of this path. Throws ValueError if there is none.
  Module child(std::string_view path) const;
  /// The number of elements of all parameters (or only those that require a gradient).
  std::int64_t num_parameters(bool trainable_only = false) const;
  /// True when both handles refer to one module.
  bool is_same(const Module& other) const { return state_ == other.state_; }

  // ---- By name ------------------------------------------------------------------------------------------
  // Registrations of this one module, for programs that learn the names while they run. Optimizers made before
  // go on with the old parameters.

  /// In order of registration: parameters and buffers, those that are none as well, then children.
  std::vector<Member> members() const;
  std::optional<Member> member(std::string_view name) const;
  /// Puts a tensor of any shape in the place of a parameter or buffer, for every handle to it, as parameter() and
  /// buffer() do, with their errors; an undefined one stands for "none". Throws ValueError if there is no such name.
  void set_tensor(std::string_view name, Tensor tensor);
  /// Registers a child, or puts it in the place of the child of this name, whatever its type. Throws ValueError as
  /// add() does, Error where a member of a struct is that child: what is assigned to the member replaces it.
  void set_child(std::string name, const Module& child);
  /// Takes a name out; false if there is none. A parameter or buffer that a member of a struct names is none from then
  /// on and keeps its name, so that the member follows when another is put there. Throws Error where a member of a
  /// struct is the child of this name.
  bool remove(std::string_view name);

  // ---- State --------------------------------------------------------------------------------------------
  /// Every parameter and persistent buffer by its path, without history, sharing memory with the module.
  StateDict state_dict() const;
  /// Copies values in, converting dtype and device. Throws ValueError, having changed nothing, when a shape
  /// differs or (strict) keys are missing or unexpected: the message lists all of them.
  LoadReport load_state_dict(const StateDict& dict, LoadOptions options = {});
  /// Throws as load_state_dict() would, and changes nothing.
  LoadReport check_state_dict(const StateDict& dict, LoadOptions options = {}) const;

  // ---- Changing all of it -------------------------------------------------------------------------------
  /// Training or evaluation mode, for all modules below: what Dropout looks at. A new module trains.
  void train(bool on = true);
  void eval() { train(false); }
  /// The mode of this module alone.
  void set_training(bool on);
  bool is_training() const;
  /// Moves every parameter, its gradient and every buffer to `device`, or floating ones to `dtype`. The
  /// tensors keep their identity: optimizers and other handles to them stay valid. Views of them made before
  /// keep the old memory. If memory runs out nothing has changed.
  void to(Device device);
  void to(DType dtype);
  void to(Device device, DType dtype);
  /// Clears all gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);
  /// Sets requires_grad of all parameters: `net.features.requires_grad_(false)` freezes a part of a network.
  void requires_grad(bool value = true);
  void requires_grad_(bool value = true) { requires_grad(value); }
  /// Calls f on every module below this one, children first, and on this one. Throws ValueError for an empty
  /// function.
  void apply(const std::function<void(Module&)>& f);

  // ---- Hooks --------------------------------------------------------------------------------------------
  // Functions that run when this module is called: by Sequential, by operator() of a layer or a Callable, by nn::call(). They do
  // not run in forward(), nor where one kernel does the work of two modules (a norm behind a sum). Handles to one
  // module have the same hooks, a clone() has none. Hooks run in the order in which they were registered; each sees
  // what the one before has put in place. Throw ValueError for an empty function.

  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  template <ForwardPreWatcher F>
  HookHandle register_forward_pre_hook(F hook) {
    return register_forward_pre_hook(
        detail::watching(std::function<void(const Module&, const Tensor&)>(std::move(hook))));
  }
  template <ForwardWatcher F>
  HookHandle register_forward_hook(F hook) {
    return register_forward_hook(
        detail::watching(std::function<void(const Module&, const Tensor&, const Tensor&)>(std::move(hook))));
  }

#ifdef __cpp_explicit_this_parameter
  /// As that of Callable.
  template <class Self, class... Args>
  requires requires(Self& self, Args&&... args) { self.forward(std::forward<Args>(args)...); }
  auto operator()(this Self&& self, Args&&... args) { return call(self, std::forward<Args>(args)...); }
#endif

  /// The kind of this module and its settings, for printing: ("Linear", "in=784, out=256, bias=true").
  void describe_as(std::string kind, std::string settings = {});
  std::string kind() const;
  std::string settings() const;

 protected:
  detail::ModuleExtra* extra() const;
  void set_extra(std::unique_ptr<detail::ModuleExtra> extra);

 private:
  friend struct detail::ModuleState;
  friend class AnyModule;
  friend CT_API std::string to_string(const Module& module, std::string_view kind);
  explicit Module(std::shared_ptr<detail::ModuleState> state) : state_(std::move(state)), enrolled_(false) {}
  detail::ModuleState& state() const;
  std::shared_ptr<detail::Entry> add_child(std::string name, const Module& child, const std::type_info& type);
  std::shared_ptr<detail::Entry> add_slot(detail::TensorSlot slot, bool persistent);
  void check_whole(const Module& other) const;
  void check_only_base(const std::type_info& other) const;

  detail::Seat seat_;
  std::shared_ptr<detail::ModuleState> state_;
  bool enrolled_ = true;  // in the list of module_seats.cpp
};

/// An independent module with the same names, values, modes and structure, of the same type; also for the
/// user's own structs. Parameters have no gradients and hooks. What a member holds through a pointer, or a
/// function that has captured `this`, is copied as is.
template <std::derived_from<Module> T>
T clone(const T& module) {
  const detail::CloneScope scope;
  return T(module);
}

/// The tree of modules, as PyTorch prints it, with `kind` as the name of the root (its own if empty).
CT_API std::string to_string(const Module& module, std::string_view kind = {});
CT_API std::ostream& print(std::ostream& out, const Module& module, const std::type_info& type);
template <std::derived_from<Module> T>
std::ostream& operator<<(std::ostream& out, const T& module) {
  return print(out, module, typeid(T));
}

/// forward(args...) of a module, with the module's hooks around it: what operator() of the layers is. The hooks see the
/// first tensor among the arguments and the first of the result, be it in a tuple, a vector or a struct that begins with it;
/// where there is none, they see an undefined one. Throws ValueError where a hook gives a tensor and there is no such place.
template <class M, class... Args>
requires std::derived_from<std::remove_cvref_t<M>, Module>
auto call(M&& module, Args&&... args) {
  const detail::ForwardHooks* const hooks = detail::hooks_of(module);
  if (!hooks) [[likely]]
    return module.forward(std::forward<Args>(args)...);
  constexpr std::size_t place = detail::first_tensor_among<Args...>();
  Tensor input;
  if constexpr (place < sizeof...(Args)) {
    const Tensor& given = std::get<place>(std::forward_as_tuple(args...));
    input = hooks->before(module, given);
  } else {
    detail::check_no_place(module, hooks->before(module, {}));
  }
  const auto run = [&]<std::size_t... k>(std::index_sequence<k...>) {
    return module.forward(detail::argument<k == place>(input, std::forward<Args>(args))...);
  };
  constexpr auto places = std::index_sequence_for<Args...>();
  if constexpr (std::is_void_v<decltype(run(places))>) {
    run(places);
    detail::check_no_place(module, hooks->after(module, input, {}));
  } else {
    auto result = run(places);
    Tensor* const output = detail::first_tensor(result);
    Tensor changed = hooks->after(module, input, output ? *output : Tensor());
    if (!output) {
      detail::check_no_place(module, changed);
    } else {
      *output = std::move(changed);
    }
    return result;
  }
}

/// A struct that is called as a layer is: `net(x)` is its forward(x), with its hooks, whatever forward() takes and gives.
///
///     struct Mlp : nn::Callable<Mlp> {
///       nn::Linear in = add("in", nn::Linear(784, 256)), out = add("out", nn::Linear(256, 10));
///       ct::Tensor forward(const ct::Tensor& x) const { return out(ct::relu(in(x))); }
///     };
///     Mlp net;
///     ct::Tensor y = net(x);
///
/// (Under C++23 every struct derived from Module is called like that.) A list in braces has no type to pass on: where
/// forward() takes one, call that.
template <class Self>
class Callable : public Module {
 public:
  // (S is Self. Clang 14 looks at the condition before Self is complete, unless that is to be deduced.)
  template <class... Args, class S = const Self>
  requires requires(S& self, Args&&... args) { self.forward(std::forward<Args>(args)...); }
  auto operator()(Args&&... args) const { return call(static_cast<S&>(*this), std::forward<Args>(args)...); }
  template <class... Args, class S = Self>
  requires requires(S& self, Args&&... args) { self.forward(std::forward<Args>(args)...); }
  auto operator()(Args&&... args) { return call(static_cast<S&>(*this), std::forward<Args>(args)...); }
};

/// Anything that turns a tensor into a tensor: a layer, or the user's own struct with such a forward().
template <class T>
concept UnaryModule = std::derived_from<T, Module> && requires(const T& m, const Tensor& x) {
  { m.forward(x) } -> std::convertible_to<Tensor>;
};

}  // namespace ct::nn
