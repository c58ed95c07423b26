#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <cotangent/core/export.h>
#include <cotangent/core/tensor.h>
#include <cotangent/nn/state_dict.h>
#include <cotangent/nn/tensor_members.h>

namespace ct::nn {

class Module;

namespace detail {
struct ModuleState;

/// A tensor of a module, with the name it was made under: what Parameter and Buffer handles point to.
struct TensorSlot {
  std::string name;
  Tensor tensor;
  bool is_buffer = false;
};

struct Entry;  // a name in a module and what it stands for

/// Whether a handle is the one that its module goes by: what add(), parameter() and buffer() gave, wherever it
/// has been moved to since. What is assigned to such a handle takes the place of what was registered. The
/// members of a struct that is copied, moved or assigned as a whole are what they were in the other struct;
/// any other copy of a handle is just that.
class CT_API Seat {
 public:
  Seat() = default;
  Seat(const Seat& from);
  Seat(Seat&& from) noexcept;
  Seat& operator=(const Seat&) = delete;
  ~Seat() { release(); }

  /// Takes the seat of this name.
  void settle(std::shared_ptr<Entry> entry);
  /// At an assignment: the entry that is to be rewritten, or null where handles are just bound anew, which
  /// follow() is for. Throws Error if there are other handles that would go on with the old.
  Entry* to_rewrite(const Seat& from);
  void follow(const Seat& from);
  void follow(Seat&& from) noexcept;

 private:
  bool is_part_of_struct(const Seat& from) const;
  void release() noexcept;

  std::shared_ptr<Entry> entry_;
  bool holds_ = false;  // false with an entry: moved out on its own, and takes it back when assigned to
};

/// State of a container beyond its children; lives with the module, not with a handle to it.
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
CT_API std::shared_ptr<TensorSlot> copy_or_clone(const std::shared_ptr<TensorSlot>& slot);
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

/// Base of Parameter and Buffer.
class CT_API SlotHandle : public TensorHandle, public TensorMembers<SlotHandle> {
 public:
  SlotHandle() = default;
  explicit SlotHandle(std::shared_ptr<Entry> entry);
  SlotHandle(const SlotHandle& other);
  SlotHandle(SlotHandle&& other) noexcept;
  /// Assigning to a member that names a parameter or buffer replaces it in the module as well, by what the
  /// other handle names (by none, if that is nothing): the two share it from then on. Throws as assigning to a
  /// Module does.
  SlotHandle& operator=(const SlotHandle& other);
  SlotHandle& operator=(SlotHandle&& other);

  /// The tensor of now; undefined if there is none. Throws Error for a handle that was moved from.
  const Tensor& tensor() const {
    static const Tensor& none = *new Tensor;  // never destroyed: static objects may still ask at exit
    if (moved_from_) [[unlikely]]
      throw_moved_from();
    return slot_ ? slot_->tensor : none;
  }
  bool defined() const { return tensor().defined(); }
  explicit operator bool() const = delete;  // defined(), or the truth of the value, tensor()?
  /// A handle is used wherever a tensor is wanted. It does not turn into a Tensor when it is about to go:
  /// `ct::Tensor w = parameter(...)` does not compile, because such a member would not follow clone().
  operator const Tensor&() const& { return tensor(); }
  operator const Tensor&() && = delete;
  const Tensor* operator->() const { return &tensor(); }
  const Tensor& operator*() const { return tensor(); }
  /// Puts another tensor in this place, for every handle to it: to share one tensor between two layers.
  /// Optimizers made before go on with the old tensor. In place of a parameter that requires a gradient the
  /// new tensor is made to require one. Throws ShapeError, DTypeError or DeviceError unless shape, dtype and
  /// device are the same, AutogradError for a parameter that is no leaf, ValueError for a tensor or a place
  /// that is undefined.
  void replace(const Tensor& tensor) const;

 private:
  [[noreturn]] static void throw_moved_from();
  bool rewrite(const SlotHandle& other);

  Seat seat_;
  std::shared_ptr<TensorSlot> slot_;
  bool moved_from_ = false;
};
}  // namespace detail

/// A member that names a parameter of its module: `nn::Parameter w = parameter("w", ct::zeros({3}));`
class CT_API Parameter : public detail::SlotHandle {
 public:
  using SlotHandle::SlotHandle;
};
/// A member that names a buffer of its module: state that is saved, but not trained.
class CT_API Buffer : public detail::SlotHandle {
 public:
  using SlotHandle::SlotHandle;
};

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
/// others would go on with the old layer. What is assigned must not contain the module (else ValueError).
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
  ~Module();

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
  // Functions that run when this module is called: by Sequential, by operator() of a layer, by nn::call(). They do
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
  explicit Module(std::shared_ptr<detail::ModuleState> state) : state_(std::move(state)) {}
  detail::ModuleState& state() const;
  std::shared_ptr<detail::Entry> add_child(std::string name, const Module& child, const std::type_info& type);
  std::shared_ptr<detail::Entry> add_slot(detail::TensorSlot slot, bool persistent);

  detail::Seat seat_;
  std::shared_ptr<detail::ModuleState> state_;
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

/// forward(x, ...) of a module that gives one tensor, with the module's hooks around it: what operator() of the layers
/// is, and that of a struct of one's own can be.
template <std::derived_from<Module> M, class... More>
Tensor call(const M& module, const Tensor& x, const More&... more) {
  if (const detail::ForwardHooks* hooks = detail::hooks_of(module)) [[unlikely]] {
    const Tensor input = hooks->before(module, x);
    return hooks->after(module, input, module.forward(input, more...));
  }
  return module.forward(x, more...);
}

/// Anything that turns a tensor into a tensor: a layer, or the user's own struct with such a forward().
template <class T>
concept UnaryModule = std::derived_from<T, Module> && requires(const T& m, const Tensor& x) {
  { m.forward(x) } -> std::convertible_to<Tensor>;
};

}  // namespace ct::nn
