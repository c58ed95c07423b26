#include <cotangent/nn/container.h>

#include <algorithm>
#include <typeinfo>

#include <cotangent/nn/activation.h>
#include <cotangent/nn/linear.h>
#include <cotangent/nn/module_internal.h>
#include <cotangent/ops/linear/linear_relu.h>

namespace ct::nn {

AnyModule::AnyModule(const AnyModule& other)
    : seat_(other.seat_), held_(detail::cloning() && other.held_ ? other.held_->clone() : other.held_) {}

bool AnyModule::rewrite(const AnyModule& other) {
  detail::Entry* const entry = seat_.to_rewrite(other.seat_);
  if (!entry) return false;
  detail::ModuleState& state = detail::ModuleState::of(other.held().as_module());
  if (state.kind.empty()) state.kind = detail::readable_type_name(other.held_->type());
  detail::replace_child(*entry, detail::ModuleState::shared(other.held_->as_module()));
  return true;
}

AnyModule& AnyModule::operator=(const AnyModule& other) {
  if (this == &other) return *this;
  if (!rewrite(other)) seat_.follow(other.seat_);
  held_ = other.held_;
  return *this;
}

AnyModule& AnyModule::operator=(AnyModule&& other) {
  if (this == &other) return *this;
  if (!rewrite(other)) seat_.follow(std::move(other.seat_));
  held_ = std::move(other.held_);
  return *this;
}

const AnyModule::Base& AnyModule::held() const {
  CT_CHECK(held_, Error, "AnyModule",
           "the module is empty because it was moved from; use the one it was moved to");
  return *held_;
}

void AnyModule::add_to(Module& parent, std::string name) {
  seat_.settle(parent.add_child(std::move(name), held().as_module(), held().type()));
}

Lambda::Lambda(Function function, std::string description) : function_(std::move(function)) {
  CT_CHECK(function_, ValueError, "Lambda", "the function is empty; it must turn a tensor into a tensor");
  describe_as("Lambda", std::move(description));
}

Sequential::Sequential() {
  describe_as("Sequential");
  set_extra(std::make_unique<detail::Items<AnyModule>>());
}

Sequential& Sequential::append(AnyModule module) { return append(std::to_string(size()), std::move(module)); }

Sequential& Sequential::append(std::string name, AnyModule module) {
  module.add_to(*this, std::move(name));
  items().push_back(std::move(module));
  return *this;
}

Sequential& Sequential::replace(std::size_t i, AnyModule module) {
  (void)(*this)[i];  // throws past the end
  items()[i] = std::move(module);
  return *this;
}

const AnyModule& Sequential::operator[](std::size_t i) const {
  CT_CHECK(i < size(), IndexError, "Sequential", "index ", i, " is out of range; there are ", size(),
           " modules: pass one in [0, ", size(), ')');
  return items()[i];
}

Sequential Sequential::slice(std::size_t start, std::size_t stop) const {
  Sequential part;
  for (std::size_t i = start; i < std::min(stop, size()); ++i) part.append(items()[i]);
  return part;
}

std::vector<AnyModule>& Sequential::items() const {
  return static_cast<detail::Items<AnyModule>*>(extra())->list;
}

std::size_t Sequential::size() const { return items().size(); }

Tensor Sequential::forward(const Tensor& x) const {
  const std::vector<AnyModule>& layers = items();
  // The layer at place i, if it is a T, not of a class of it, that nobody watches.
  const auto plain = [&]<class T>(std::type_identity<T>, std::size_t i) -> const T* {
    if (i >= layers.size() || layers[i].held().type() != typeid(T)) return nullptr;
    const Module& module = layers[i].held().as_module();
    return detail::hooks_of(module) ? nullptr : static_cast<const T*>(&module);
  };
  Tensor y = x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    // On a GPU the two are one kernel, and their gradients are; on the CPU nothing would be gained.
    const bool gpu = y.defined() && y.device().is_cuda();
    const Linear* const linear = gpu ? plain(std::type_identity<Linear>(), i) : nullptr;
    if (linear && plain(std::type_identity<ReLU>(), i + 1)) {
      y = ct::linear_impl::linear_relu(y, linear->weight(), linear->bias());
      ++i;
    } else {
      y = layers[i](y);
    }
  }
  return y;
}

ParameterList::ParameterList() {
  describe_as("ParameterList");
  set_extra(std::make_unique<detail::Items<Parameter>>());
}

ParameterList::ParameterList(std::initializer_list<Tensor> tensors)
    : ParameterList(std::vector<Tensor>(tensors)) {}
ParameterList::ParameterList(const std::vector<Tensor>& tensors) : ParameterList() {
  for (const Tensor& t : tensors) append(t);
}

void ParameterList::append(Tensor tensor) {
  items().push_back(parameter(std::to_string(size()), std::move(tensor)));
}

std::vector<Parameter>& ParameterList::items() const {
  return static_cast<detail::Items<Parameter>*>(extra())->list;
}

std::size_t ParameterList::size() const { return items().size(); }

const Tensor& ParameterList::operator[](std::size_t i) const {
  CT_CHECK(i < size(), IndexError, "ParameterList", "index ", i, " is out of range; there are ", size(),
           " parameters: pass one in [0, ", size(), ')');
  return items()[i].tensor();
}

}  // namespace ct::nn
