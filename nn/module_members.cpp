#include <algorithm>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/core/device/recording.h>
#include <cotangent/nn/module_internal.h>

// Registrations of one module, by name. Apart from module.cpp, so that only programs that ask link it.

namespace ct::nn {

using detail::Entry;
using detail::ModuleState;

namespace {

using Entries = std::vector<std::shared_ptr<Entry>>;

Entries::iterator find(Entries& list, std::string_view name) {
  return std::ranges::find_if(list, [&](const auto& entry) { return entry->name == name; });
}

Member member_of(const Entry& entry) {
  if (!entry.slot) return {entry.name, Member::Kind::module, {}, true};
  return {entry.name, entry.slot->is_buffer ? Member::Kind::buffer : Member::Kind::parameter,
          entry.slot->now(), entry.persistent};
}

void check_unheld(const char* op, const Entry& entry) {
  CT_CHECK(entry.holders == 0, Error, op, '\'', entry.name,
           "' is a member of a struct, which would go on with what it is; assign to the member");
}

}  // namespace

std::vector<Member> Module::members() const {
  std::vector<Member> list;
  for (const auto* entries : {&state().slots, &state().children})
    for (const auto& entry : *entries) list.push_back(member_of(*entry));
  return list;
}

std::optional<Member> Module::member(std::string_view name) const {
  for (auto* entries : {&state().slots, &state().children})
    if (const auto found = find(*entries, name); found != entries->end()) return member_of(**found);
  return std::nullopt;
}

void Module::set_tensor(std::string_view name, Tensor tensor) {
  const auto found = find(state().slots, name);
  CT_CHECK(found != state().slots.end(), ValueError, "set_tensor", "there is no parameter or buffer '", name,
           "' in this module; parameter() and buffer() register one");
  detail::TensorSlot& slot = *(*found)->slot;
  if (!slot.is_buffer) detail::prepare_parameter("set_tensor", slot.name, tensor);
  slot.tensor = std::move(tensor);
}

void Module::set_child(std::string name, const Module& child) {
  const auto found = find(state().children, name);
  if (found == state().children.end()) {
    add_child(std::move(name), child, typeid(Module));
  } else {
    check_unheld("set_child", **found);
    detail::replace_child(**found, child.state_);
  }
}

bool Module::remove(std::string_view name) {
  ModuleState& own = state();
  if (const auto child = find(own.children, name); child != own.children.end()) {
    check_unheld("remove", **child);
    (*child)->owner = nullptr;
    own.children.erase(child);
    return true;
  }
  const auto slot = find(own.slots, name);
  if (slot == own.slots.end()) return false;
  if ((*slot)->slot.use_count() > 1) {
    (*slot)->slot->tensor = Tensor();
  } else {
    (*slot)->owner = nullptr;
    own.slots.erase(slot);
  }
  return true;
}

void Module::set_training(bool on) {
  state().training = on;
  ct::detail::bump_state_epoch();
}

}  // namespace ct::nn
