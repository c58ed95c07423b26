#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cotangent/core/error.h>
#include <cotangent/core/export.h>
#include <cotangent/nn/module.h>

namespace ct::nn {

/// A handle to any module with a forward() from tensor to tensor.
class CT_API AnyModule {
 public:
  template <UnaryModule T>
  AnyModule(T module) : held_(std::make_shared<Held<T>>(std::move(module))) {}
  AnyModule(const AnyModule& other) : held_(detail::cloning() ? other.held_->clone() : other.held_) {}
  AnyModule(AnyModule&&) noexcept = default;
  AnyModule& operator=(const AnyModule&) = default;
  AnyModule& operator=(AnyModule&&) noexcept = default;

  Tensor forward(const Tensor& x) const { return held_->forward(x); }
  Tensor operator()(const Tensor& x) const { return held_->forward(x); }
  /// Registers the module as a child of `parent`.
  void add_to(Module& parent, std::string name) const { held_->add_to(parent, std::move(name)); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual Tensor forward(const Tensor& x) const = 0;
    virtual void add_to(Module& parent, std::string name) const = 0;
    virtual std::shared_ptr<const Base> clone() const = 0;
  };
  template <class T>
  struct Held final : Base {
    explicit Held(T m) : module(std::move(m)) {}
    Tensor forward(const Tensor& x) const override { return module.forward(x); }
    void add_to(Module& parent, std::string name) const override { parent.add(std::move(name), module); }
    std::shared_ptr<const Base> clone() const override { return std::make_shared<Held<T>>(T(module)); }
    T module;
  };
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
    add(std::to_string(size()), module);
    items().push_back(module);
    return module;
  }
  std::size_t size() const { return items().size(); }
  /// Throws IndexError past the end.
  const T& operator[](std::size_t i) const {
    CT_CHECK(i < size(), IndexError, "module_list", "index ", i, " is out of range; there are ", size(),
             " modules");
    return items()[i];
  }
  typename std::vector<T>::const_iterator begin() const { return items().begin(); }
  typename std::vector<T>::const_iterator end() const { return items().end(); }

 private:
  struct Items final : detail::ModuleExtra {
    std::vector<T> list;
    std::unique_ptr<detail::ModuleExtra> clone() const override { return std::make_unique<Items>(*this); }
  };
  std::vector<T>& items() const { return static_cast<Items*>(extra())->list; }
};

}  // namespace ct::nn
