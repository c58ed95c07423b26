#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cotangent/core/error.h>
#include <cotangent/core/export.h>
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
  Tensor operator()(const Tensor& x) const { return forward(x); }

 private:
  Function function_;
};

class AnyModule;
/// What Lambda makes a module of.
template <class F>
concept TensorFunction = !std::derived_from<F, Module> && !std::same_as<F, AnyModule> &&
                         std::is_invocable_r_v<Tensor, const F&, const Tensor&>;
/// What Sequential takes.
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

  Tensor forward(const Tensor& x) const { return held().forward(x); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
  /// Registers the module as a child of `parent`; what is assigned to this handle later replaces it.
  void add_to(Module& parent, std::string name);

 private:
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
    Tensor forward(const Tensor& x) const override { return module.forward(x); }
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
  /// Puts a module at the end.
  Sequential& append(AnyModule module);
  Sequential& append(std::string name, AnyModule module);
  /// Puts a module in the place of the one at position i, under its name. Throws IndexError past the end.
  Sequential& replace(std::size_t i, AnyModule module);
  std::size_t size() const;
  /// Throws IndexError past the end.
  const AnyModule& operator[](std::size_t i) const;
  std::vector<AnyModule>::const_iterator begin() const { return layers().items.begin(); }
  std::vector<AnyModule>::const_iterator end() const { return layers().items.end(); }
  /// The modules from `start` to before `stop`, shared with this one, as a Sequential that numbers them from "0". What lies
  /// outside is left out, as in Tensor::slice().
  Sequential slice(std::size_t start, std::size_t stop = SIZE_MAX) const;
  /// The input itself if there are no modules.
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

 private:
  struct Layers final : detail::ModuleExtra {
    std::vector<AnyModule> items;
    std::unique_ptr<detail::ModuleExtra> clone() const override { return std::make_unique<Layers>(*this); }
  };
  Layers& layers() const { return *static_cast<Layers*>(extra()); }
};

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
  struct Items final : detail::ModuleExtra {
    std::vector<T> list;
    std::unique_ptr<detail::ModuleExtra> clone() const override { return std::make_unique<Items>(*this); }
  };
  T& at(std::size_t i) const {
    CT_CHECK(i < size(), IndexError, "ModuleList", "index ", i, " is out of range; there are ", size(),
             " modules: pass one in [0, ", size(), ')');
    return items()[i];
  }
  std::vector<T>& items() const { return static_cast<Items*>(extra())->list; }
};

}  // namespace ct::nn
