#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include <cotangent/autograd/function.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/error.h>
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

// ---- Seats ----------------------------------------------------------------------------------------------
// A struct is copied, moved or assigned by the compiler: its base first, then its members. So its base notes
// what is going on, and a member is part of it if it lies at the same distance from its base in both structs.
// Nothing else can lie there while the struct lives. (What a member keeps on the heap, in a vector, is only
// recognised when structs are assigned: by the modules that the two handles to it belong to.)

namespace {

struct StructOp {
  const ModuleState* state = nullptr;     // the module of the struct on the right
  const ModuleState* replaced = nullptr;  // what the one on the left was a handle to
  const Module *to = nullptr, *from = nullptr;
};
constexpr int kDepth = 16;                   // structs within structs; nobody nests deeper
thread_local StructOp t_struct_ops[kDepth];  // latest first

void to_front(int i) { std::rotate(t_struct_ops, t_struct_ops + i, t_struct_ops + i + 1); }

void note_struct_op(const std::shared_ptr<ModuleState>& state, const Module* to, const Module* from,
                    const ModuleState* replaced = nullptr) {
  if (!state || (state->children.empty() && state->slots.empty())) return;
  to_front(kDepth - 1);
  t_struct_ops[0] = {state.get(), replaced, to, from};
}

void forget_struct_ops(const Module* module) {
  for (StructOp& op : t_struct_ops)
    if (op.to == module || op.from == module) op = {};
}

std::ptrdiff_t distance(const void* from, const void* to) {
  return static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(to) -
                                     reinterpret_cast<std::uintptr_t>(from));
}

}  // namespace

bool Seat::is_part_of_struct(const Seat& from) const {
  if (!from.entry_ || !from.entry_->owner) return false;
  for (int i = 0; i < kDepth; ++i) {
    const StructOp& op = t_struct_ops[i];
    const bool same_place = distance(op.to, this) == distance(op.from, &from);
    const bool assigned = entry_ && op.replaced && op.replaced == entry_->owner;
    if (op.state != from.entry_->owner || !(same_place || assigned)) continue;
    to_front(i);
    return true;
  }
  return false;
}

Seat::Seat(const Seat& from) {
  if (t_memo) {
    const auto cloned = t_memo->entries.find(from.entry_.get());
    if (cloned != t_memo->entries.end() && from.holds_) settle(cloned->second);
  } else {
    follow(from);
  }
}
Seat::Seat(Seat&& from) noexcept { follow(std::move(from)); }

void Seat::release() noexcept {
  if (holds_) --entry_->holders;
  holds_ = false;
  entry_.reset();
}

void Seat::settle(std::shared_ptr<Entry> entry) {
  release();
  entry_ = std::move(entry);
  holds_ = true;
  ++entry_->holders;
}

void Seat::follow(const Seat& from) {
  if (from.holds_ && is_part_of_struct(from)) {
    settle(from.entry_);
  } else {
    release();
  }
}

void Seat::follow(Seat&& from) noexcept {
  const bool part = is_part_of_struct(from);
  release();
  entry_ = from.entry_;
  holds_ = std::exchange(from.holds_, false);
  if (part) from.entry_.reset();
}

Entry* Seat::to_rewrite(const Seat& from) {
  if (!entry_ || !entry_->owner || is_part_of_struct(from)) return nullptr;
  if (!holds_) {
    // Moved out, as by std::swap: the name is this member's again, whoever has what was under it.
    auto fresh =
        std::make_shared<Entry>(entry_->name, entry_->child, entry_->slot, entry_->persistent, entry_->owner);
    for (auto* list : {&entry_->owner->slots, &entry_->owner->children})
      std::ranges::replace(*list, entry_, fresh);
    entry_->owner = nullptr;
    settle(std::move(fresh));
  }
  CT_CHECK(entry_->holders == 1, Error, "module", '\'', entry_->name, "' is assigned to in one of ",
           entry_->holders.load(),
           " handles to its module, and the others would go on with the old one; assign before the struct is "
           "copied, or to a member of nn::clone() of it");
  return entry_.get();
}

void replace_child(Entry& entry, const std::shared_ptr<ModuleState>& child) {
  CT_CHECK(child, Error, "module", "what is assigned to '", entry.name,
           "' is empty because it was moved from; assign the module it was moved to");
  ModuleState::visit(ModuleState::handle(child), [&](const std::string&, const Module& m) {
    CT_CHECK(&ModuleState::of(m) != entry.owner, ValueError, "module", "what is assigned to '", entry.name,
             "' contains the module that it is to be a part of; modules form a tree");
  });
  if (child->kind.empty()) child->kind = entry.child->kind;
  entry.child = child;
}

bool cloning() { return t_memo != nullptr; }

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

Module::Module() : state_(std::make_shared<ModuleState>()) {}
Module::Module(const Module& other) : seat_(other.seat_), state_(detail::copy_or_clone(other.state_)) {
  if (!detail::cloning()) detail::note_struct_op(state_, this, &other);
}
Module::Module(Module&& other) noexcept : seat_(std::move(other.seat_)), state_(std::move(other.state_)) {
  detail::note_struct_op(state_, this, &other);
}
Module& Module::operator=(const Module& other) {
  if (this == &other) return *this;
  const std::shared_ptr<detail::ModuleState> before = state_;
  if (Entry* const entry = seat_.to_rewrite(other.seat_)) {
    detail::replace_child(*entry, other.state_);
  } else {
    seat_.follow(other.seat_);
  }
  state_ = other.state_;
  detail::note_struct_op(state_, this, &other, before.get());
  return *this;
}
Module& Module::operator=(Module&& other) {
  if (this == &other) return *this;
  const std::shared_ptr<detail::ModuleState> before = state_;
  if (Entry* const entry = seat_.to_rewrite(other.seat_)) {
    detail::replace_child(*entry, other.state_);
  } else {
    seat_.follow(std::move(other.seat_));
  }
  state_ = std::move(other.state_);
  detail::note_struct_op(state_, this, &other, before.get());
  return *this;
}
Module::~Module() { detail::forget_struct_ops(this); }

}  // namespace ct::nn
