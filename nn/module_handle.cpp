#include <unordered_map>
#include <utility>

#include <cotangent/autograd/function.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/base/error.h>
#include <cotangent/nn/module_internal.h>

// Handles to modules and their tensors: what copying, moving, assigning and cloning them means.

namespace ct::nn {

using detail::Entry;
using detail::ModuleState;

namespace detail {
namespace {

// Clones made in this scope, so that shared modules and tensors stay shared.
struct CloneMemo {
  std::unordered_map<const ModuleState*, std::shared_ptr<ModuleState>> modules;
  std::unordered_map<const TensorSlot*, std::shared_ptr<TensorSlot>> slots;
  std::unordered_map<const Entry*, std::shared_ptr<Entry>> entries;
  std::unordered_map<const TensorImpl*, Tensor> tensors;
};
thread_local CloneMemo* t_memo = nullptr;

Tensor clone_tensor(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  Tensor& copy = t_memo->tensors[tensor.impl()];
  if (!copy.defined()) {
    const NoGrad guard;
    copy = tensor.detach().clone();
    if (tensor.requires_grad()) copy.set_requires_grad();
  }
  return copy;
}

}  // namespace

void check_leaf(const char* op, const std::string& name, const Tensor& tensor) {
  CT_CHECK(tensor.is_leaf(), AutogradError, op, '\'', name, "' is the result of '", tensor.grad_fn_name(),
           "'; a parameter is a leaf: call detach() first");
}

CloneScope::CloneScope() : previous_(t_memo) { t_memo = new CloneMemo; }
CloneScope::~CloneScope() {
  delete t_memo;
  t_memo = static_cast<CloneMemo*>(previous_);
}

void replace_child(Entry& entry, const std::shared_ptr<ModuleState>& child) {
  CT_CHECK(child, Error, "module", "what is assigned to '", entry.name,
           "' is empty because it was moved from; assign the module it was moved to");
  ModuleState::visit(ModuleState::handle(child), [&](const std::string&, const Module& m) {
    CT_CHECK(&ModuleState::of(m) != entry.owner, ValueError, "module", "what is assigned to '", entry.name,
             "' contains the module that it is to be a part of; modules form a tree");
  });
  if (child->kind.empty()) child->kind = entry.child->kind;
  entry.set_child(child);
}

bool cloning() { return t_memo != nullptr; }

std::shared_ptr<Entry> clone_of(const std::shared_ptr<Entry>& entry) {
  const auto cloned = t_memo->entries.find(entry.get());
  return cloned == t_memo->entries.end() ? nullptr : cloned->second;
}

std::shared_ptr<TensorSlot> copy_or_clone(const std::shared_ptr<TensorSlot>& slot) {
  if (!slot || !t_memo) return slot;
  std::shared_ptr<TensorSlot>& copy = t_memo->slots[slot.get()];
  if (!copy) {
    copy = std::make_shared<TensorSlot>(*slot);
    copy->tensor = clone_tensor(slot->tensor);
  }
  return copy;
}

std::shared_ptr<ModuleState> copy_or_clone(const std::shared_ptr<ModuleState>& state) {
  if (!state || !t_memo) return state;
  if (const auto known = t_memo->modules.find(state.get()); known != t_memo->modules.end())
    return known->second;
  auto copy = std::make_shared<ModuleState>();
  t_memo->modules.emplace(state.get(), copy);
  copy->kind = state->kind;
  copy->settings = state->settings;
  copy->training = state->training;
  copy->reach = state->reach;
  copy->asked = state->asked.load();
  copy->origin = state->origin.expired() ? std::weak_ptr(state) : state->origin;
  const auto clone_entry = [&](const std::shared_ptr<Entry>& entry) {
    auto made = std::make_shared<Entry>(entry->name, copy_or_clone(entry->child), copy_or_clone(entry->slot),
                                        entry->persistent, copy.get());
    t_memo->entries.emplace(entry.get(), made);
    return made;
  };
  for (const auto& entry : state->slots) copy->slots.push_back(clone_entry(entry));
  for (const auto& entry : state->children) copy->children.push_back(clone_entry(entry));
  if (state->extra) copy->extra = state->extra->clone();
  return copy;
}

void Entry::count(int n) const {
  if (child) child->parents += n;
}

ModuleState::~ModuleState() {
  for (const auto* list : {&slots, &children})
    for (const auto& entry : *list) entry->owner = nullptr;
}

std::string readable_type_name(const std::type_info& type) {
  std::string name = ct::detail::type_name(type);
  if (const std::size_t space = name.rfind("::");
      space != std::string::npos && name.find('<') == std::string::npos)
    name.erase(0, space + 2);
  return name;
}

SlotHandle::SlotHandle(std::shared_ptr<Entry> entry) : slot_(entry->slot) { seat_.settle(std::move(entry)); }
SlotHandle::SlotHandle(const SlotHandle& other)
    : seat_(other.seat_), slot_(copy_or_clone(other.slot_)), moved_from_(other.moved_from_) {}
SlotHandle::SlotHandle(SlotHandle&& other) noexcept
    : seat_(std::move(other.seat_)),
      slot_(std::move(other.slot_)),
      moved_from_(std::exchange(other.moved_from_, true)) {}

bool SlotHandle::rewrite(const SlotHandle& other) {
  Entry* const entry = seat_.to_rewrite(other.seat_);
  if (!entry) return false;
  other.tensor();  // throws if it was moved from
  auto slot = other.slot_;
  if (!slot) slot = std::make_shared<TensorSlot>(TensorSlot{entry->name, Tensor(), entry->slot->is_buffer});
  slot_ = entry->slot = std::move(slot);
  moved_from_ = false;
  return true;
}

SlotHandle& SlotHandle::operator=(const SlotHandle& other) {
  if (this == &other || rewrite(other)) return *this;
  seat_.follow(other.seat_);
  slot_ = other.slot_;
  moved_from_ = other.moved_from_;
  return *this;
}

SlotHandle& SlotHandle::operator=(SlotHandle&& other) {
  if (this == &other) return *this;
  if (!rewrite(other)) {
    seat_.follow(std::move(other.seat_));
    slot_ = other.slot_;
    moved_from_ = other.moved_from_;
  }
  other.slot_.reset();
  other.moved_from_ = true;
  return *this;
}

void SlotHandle::throw_moved_from() {
  ct::detail::fail<Error>(
      "module",
      "a parameter or buffer is asked for through a handle that was moved from, with its module; use "
      "the module it was moved to");
}

void SlotHandle::replace(const Tensor& tensor) const {
  CT_CHECK(defined(), ValueError, "replace",
           "the handle names no tensor; only one that a module has registered can be replaced");
  CT_CHECK(tensor.defined(), ValueError, "replace", "got an undefined tensor for '", slot_->name,
           "'; pass one like ", describe(slot_->tensor));
  const std::string both = ct::detail::cat('\'', slot_->name, "' is ", describe(slot_->tensor),
                                           ", the new tensor ", describe(tensor));
  CT_CHECK(tensor.shape() == slot_->tensor.shape(), ShapeError, "replace", both,
           "; their shapes must be the same");
  CT_CHECK(tensor.dtype() == slot_->tensor.dtype(), DTypeError, "replace", both,
           "; their dtypes must be the same: convert with .to(", slot_->tensor.dtype(), ')');
  CT_CHECK(tensor.device() == slot_->tensor.device(), DeviceError, "replace", both,
           "; their devices must be the same: move it with .to()");
  Tensor taken = tensor;
  if (!slot_->is_buffer) {
    check_leaf("replace", slot_->name, tensor);
    if (slot_->tensor.requires_grad() && !taken.requires_grad()) taken.set_requires_grad();
  }
  slot_->tensor = taken;
}

}  // namespace detail

Module::Module() : state_(std::make_shared<ModuleState>()) { detail::enroll(*this); }
Module::Module(const Module& other) : seat_(other.seat_), state_(detail::copy_or_clone(other.state_)) {
  detail::enroll(*this);
}
Module::Module(Module&& other) noexcept : seat_(std::move(other.seat_)), state_(std::move(other.state_)) {
  detail::enroll(*this);
  detail::rebind(other, state_.get());
}
Module& Module::operator=(const Module& other) {
  if (this == &other) return *this;
  check_whole(other);
  const std::shared_ptr<ModuleState> before = state_;
  if (Entry* const entry = seat_.to_rewrite(other.seat_)) {
    detail::replace_child(*entry, other.state_);
  } else {
    seat_.follow(other.seat_);
  }
  state_ = other.state_;
  detail::rebind(*this, before.get());
  return *this;
}
Module& Module::operator=(Module&& other) {
  if (this == &other) return *this;
  check_whole(other);
  const std::shared_ptr<ModuleState> before = state_;
  if (Entry* const entry = seat_.to_rewrite(other.seat_)) {
    detail::replace_child(*entry, other.state_);
  } else {
    seat_.follow(std::move(other.seat_));
  }
  state_ = std::move(other.state_);
  detail::rebind(*this, before.get());
  detail::rebind(other, state_.get());
  return *this;
}
Module::~Module() {
  if (enrolled_) detail::withdraw(*this);
}

}  // namespace ct::nn
