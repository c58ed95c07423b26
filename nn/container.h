#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/nn/module.h>

namespace ct::nn {

/// A function from tensor to tensor as a module, without parameters:
///
///     nn::Sequential net(nn::Linear(2, 8), ct::relu, [](const ct::Tensor& x) { return 2 * x; });
class CT_API Lambda : public Module {
 public:
  using Function = std::function<Tensor(const Tensor&)>;
  /// Throws ValueError for an empty function. `description` is for printing.
  explicit Lambda(Function function, std::string description = {});
  Tensor forward(const Tensor& x) const { return function_(x); }
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  Function function_;
};

class AnyModule;
/// A function that Lambda makes a module of.
template <class F>
concept TensorFunction = !std::derived_from<F, Module> && !std::same_as<F, AnyModule> &&
                         std::is_invocable_r_v<Tensor, const F&, const Tensor&>;
/// A layer that Sequential takes: a module, or a function from tensor to tensor.
template <class T>
concept Layer = UnaryModule<T> || TensorFunction<T>;

/// A handle to any module with a forward() from tensor to tensor. As with other handles, assigning to one that
/// is registered replaces the child (see Module), and using one that was moved from throws Error.
class CT_API AnyModule {
 public:
  template <UnaryModule T>
  AnyModule(T module)
      : seat_(std::move(static_cast<Module&>(module).seat_)),
        held_(std::make_shared<Held<T>>(std::move(module))) {}
  template <TensorFunction F>
  AnyModule(F function) : AnyModule(Lambda(std::move(function))) {}
  AnyModule(const AnyModule& other);
  AnyModule(AnyModule&&) noexcept = default;
  AnyModule& operator=(const AnyModule& other);
  AnyModule& operator=(AnyModule&& other);

  /// The module's forward(), with its hooks.
  Tensor forward(const Tensor& x) const { return held().forward(x); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
  /// Registers the module as a child of `parent`; a later assignment to this handle replaces it.
  void add_to(Module& parent, std::string name);

 private:
  friend class Sequential;
  struct Base {
    virtual ~Base() = default;
    virtual Tensor forward(const Tensor& x) const = 0;
    virtual const Module& as_module() const = 0;
    virtual const std::type_info& type() const = 0;
    virtual std::shared_ptr<const Base> clone() const = 0;
  };
  template <class T>
  struct Held final : Base {
    explicit Held(T m) : module(std::move(m)) {}
    Tensor forward(const Tensor& x) const override { return call(module, x); }
    const Module& as_module() const override { return module; }
    const std::type_info& type() const override { return typeid(T); }
    std::shared_ptr<const Base> clone() const override { return std::make_shared<Held<T>>(T(module)); }
    T module;
  };
  const Base& held() const;
  bool rewrite(const AnyModule& other);

  detail::Seat seat_;
  std::shared_ptr<const Base> held_;
};

/// Modules one after the other: the output of each is the input of the next.
///
///     nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
///
/// The children are named "0", "1", ... unless they are given names with append().
class CT_API Sequential : public Module {
 public:
  Sequential();
  template <Layer First, Layer... Rest>
  requires(sizeof...(Rest) > 0 || !std::is_same_v<First, Sequential>) explicit Sequential(First first,
                                                                                          Rest... rest)
      : Sequential() {
    append(std::move(first));
    (append(std::move(rest)), ...);
  }
  /// A number of layers known at run time: a vector of layers, or of AnyModule for layers of several types.
  template <std::convertible_to<AnyModule> T>
  explicit Sequential(std::vector<T> modules) : Sequential() {
    for (T& module : modules) append(std::move(module));
  }
  /// Chosen for arguments that are no layers, to say so.
  template <class... Others>
  requires(sizeof...(Others) > 0 && !(Layer<Others> && ...)) explicit Sequential(const Others&...) {
    static_assert((Layer<Others> && ...),
                  "nn::Sequential takes modules that have Tensor forward(const Tensor&) const, "
                  "and functions from tensor to tensor");
  }
  /// Puts a module at the end.
  Sequential& append(AnyModule module);
  Sequential& append(std::string name, AnyModule module);
  /// Puts a module in the place of the one at position i, under its name. Throws IndexError past the end.
  Sequential& replace(std::size_t i, AnyModule module);
  std::size_t size() const;
  /// Throws IndexError past the end.
  const AnyModule& operator[](std::size_t i) const;
  std::vector<AnyModule>::const_iterator begin() const { return items().begin(); }
  std::vector<AnyModule>::const_iterator end() const { return items().end(); }
  /// The modules from `start` to before `stop`, shared with this one, as a Sequential that numbers them from "0". Bounds
  /// outside of the list are clamped, as in Tensor::slice().
  Sequential slice(std::size_t start, std::size_t stop = SIZE_MAX) const;
  /// The input itself if there are no modules.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return call(*this, x); }

 private:
  std::vector<AnyModule>& items() const;
};

namespace detail {
/// A container's list beside its children.
template <class T>
struct Items final : ModuleExtra {
  std::vector<T> list;
  std::unique_ptr<ModuleExtra> clone() const override { return std::make_unique<Items>(*this); }
};
}  // namespace detail

/// Modules of one type, named "0", "1", ...: blocks that the owner's forward() goes through by itself.
template <std::derived_from<Module> T>
class ModuleList : public Module {
 public:
  ModuleList() {
    describe_as("ModuleList");
    set_extra(std::make_unique<Items>());
  }
  ModuleList(std::initializer_list<T> modules) : ModuleList() {
    for (const T& m : modules) append(m);
  }
  explicit ModuleList(std::vector<T> modules) : ModuleList() {
    for (T& m : modules) append(std::move(m));
  }
  /// Puts a module at the end and gives it back.
  T append(T module) {
    items().push_back(add(std::to_string(size()), std::move(module)));
    return items().back();
  }
  /// Puts a module in the place of module i. Throws IndexError past the end.
  void replace(std::size_t i, T module) { at(i) = std::move(module); }
  std::size_t size() const { return items().size(); }
  /// Throws IndexError past the end.
  const T& operator[](std::size_t i) const { return at(i); }
  typename std::vector<T>::const_iterator begin() const { return items().begin(); }
  typename std::vector<T>::const_iterator end() const { return items().end(); }

 private:
  using Items = detail::Items<T>;
  T& at(std::size_t i) const {
    CT_CHECK(i < size(), IndexError, "ModuleList", "index ", i, " is out of range; there are ", size(),
             " modules: pass one in [0, ", size(), ')');
    return items()[i];
  }
  std::vector<T>& items() const { return static_cast<Items*>(extra())->list; }
};

/// Modules by name, in the order in which they came:
///
///     nn::ModuleDict choices{{"conv", nn::Conv2d(8, 8, 3)}, {"pool", nn::MaxPool2d(3)}};
///     x = choices["conv"](x);
///
/// Names are those of children (see Module), and paths go through them ("choices.conv.weight"). With a type,
/// ModuleDict<Block>, it holds modules of that type, which need no forward() from tensor to tensor.
template <class T = AnyModule>
requires(std::derived_from<T, Module> || std::same_as<T, AnyModule>) class ModuleDict : public Module {
 public:
  using Entry = std::pair<std::string, T>;

  ModuleDict() {
    describe_as("ModuleDict");
    set_extra(std::make_unique<Items>());
  }
  ModuleDict(std::initializer_list<Entry> modules) : ModuleDict() {
    for (const Entry& m : modules) insert(m.first, m.second);
  }
  /// Adds a module, or puts it in the place of the one of this name. Throws ValueError as Module::add().
  void insert(std::string name, T value) {
    if (Entry* const known = find(name)) {
      known->second = std::move(value);
    } else if constexpr (std::same_as<T, AnyModule>) {
      value.add_to(*this, name);
      items().emplace_back(std::move(name), std::move(value));
    } else {
      T added = add(name, std::move(value));
      items().emplace_back(std::move(name), std::move(added));
    }
  }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Throws ValueError if there is no module of this name.
  const T& operator[](std::string_view name) const {
    const Entry* const found = find(name);
    CT_CHECK(found, ValueError, "ModuleDict", "there is no module '", name, "' among the ", size(),
             "; insert() it, or print the dictionary to see their names");
    return found->second;
  }
  std::size_t size() const { return items().size(); }
  typename std::vector<Entry>::const_iterator begin() const { return items().begin(); }
  typename std::vector<Entry>::const_iterator end() const { return items().end(); }

 private:
  using Items = detail::Items<Entry>;
  Entry* find(std::string_view name) const {
    for (Entry& entry : items())
      if (entry.first == name) return &entry;
    return nullptr;
  }
  std::vector<Entry>& items() const { return static_cast<Items*>(extra())->list; }
};

/// Parameters named "0", "1", ...: as many as the program says, which the owner's forward() uses by their numbers.
class CT_API ParameterList : public Module {
 public:
  ParameterList();
  ParameterList(std::initializer_list<Tensor> tensors);
  explicit ParameterList(const std::vector<Tensor>& tensors);
  /// Makes a tensor a parameter at the end. Throws as Module::parameter().
  void append(Tensor tensor);
  std::size_t size() const;
  /// Throws IndexError past the end.
  const Tensor& operator[](std::size_t i) const;
  std::vector<Parameter>::const_iterator begin() const { return items().begin(); }
  std::vector<Parameter>::const_iterator end() const { return items().end(); }

 private:
  std::vector<Parameter>& items() const;
};

}  // namespace ct::nn
