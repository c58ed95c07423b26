#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/core/error.h>
#include <cotangent/core/export.h>
#include <cotangent/nn/module.h>

namespace ct::nn {

/// A handle to any module with a forward() from tensor to tensor. As with other handles, assigning to one that
/// is registered replaces the child (see Module), and using one that was moved from throws Error.
class CT_API AnyModule {
 public:
  template <UnaryModule T>
  AnyModule(T module)
      : seat_(std::move(static_cast<Module&>(module).seat_)),
        held_(std::make_shared<Held<T>>(std::move(module))) {}
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
  template <UnaryModule First, UnaryModule... Rest>
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
