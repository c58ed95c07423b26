#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/nn/module_internal.h>

// Which handles are members of a struct that is a module: they lie in the struct's object.
//
// A struct is copied, moved or assigned by the compiler: its base first, then its members, of which a Module knows nothing.
// But every handle that lives is listed here, so that a copy of a member finds the struct it lies in, if any, and whether
// that is a handle to the module that the member is of. Where the object ends is asked of its deleting destructor: while
// members are constructed, the object is of the class whose members they are, so the answer holds then, too.
//
// A member in a container lies elsewhere. Each handle to a struct has one such member for each name; so a copy is a member
// where there are more handles to structs than members of the name.

namespace ct::nn {

using detail::Entry;
using detail::ModuleState;

namespace {

thread_local std::size_t* t_size = nullptr;  // where the size goes that a deleting destructor is asked for

struct Registry {
  std::mutex mutex;
  std::set<const Module*> handles;
};
Registry& registry() {
  static Registry& one = *new Registry;  // never destroyed: static modules end after it would
  return one;
}

const char* address(const void* p) { return static_cast<const char*>(p); }

/// The struct that is a handle to the module and that p lies in, or null. Needs the lock.
const Module* enclosing(const void* p, const ModuleState& module) {
  for (const ModuleState::Handle& handle : module.handles) {
    const auto distance = address(p) - address(handle.at);
    // The first comparison alone keeps off structs of other threads.
    if (distance > 0 && distance < static_cast<std::ptrdiff_t>(module.reach) &&
        distance < static_cast<std::ptrdiff_t>(detail::reach_of(*handle.at)))
      return handle.at;
  }
  return nullptr;
}

/// How many structs are handles to the module. A container's members are shared by all of them. Needs the lock.
int count_structs(const ModuleState& module) {
  if (module.extra) return 0;
  return static_cast<int>(std::ranges::count_if(module.handles, [](const ModuleState::Handle& handle) {
    return handle.thread != std::this_thread::get_id() || typeid(*handle.at) != typeid(Module);
  }));
}

/// Whether a struct lacks its member of this name. Needs the lock.
bool is_wanting(const Entry& entry) { return entry.holders < count_structs(*entry.owner); }

void remove(std::vector<ModuleState::Handle>& list, const Module& handle) {
  std::erase_if(list, [&](const ModuleState::Handle& one) { return one.at == &handle; });
}

}  // namespace

void Module::operator delete(Module* module, std::destroying_delete_t, std::size_t size) {
  if (t_size) {
    *t_size = size;
    return;
  }
  void* const object = dynamic_cast<void*>(module);
  module->~Module();
  ::operator delete(object);
}
void Module::operator delete(Module* module, std::destroying_delete_t, std::size_t size,
                             std::align_val_t align) {
  if (t_size) {
    *t_size = size;
    return;
  }
  void* const object = dynamic_cast<void*>(module);
  module->~Module();
  ::operator delete(object, align);
}

void Module::check_whole(const Module& other) const {
  // A struct is assigned by its base only as a part of one that is as large, or of one that is derived from it.
  if (typeid(*this) != typeid(other) && detail::reach_of(other) < detail::reach_of(*this))
    check_only_base(typeid(other));
}
void Module::check_only_base(const std::type_info& other) const {
  CT_CHECK(
      typeid(*this) == typeid(Module), Error, "module", "a ", detail::readable_type_name(typeid(*this)),
      " is assigned a ", detail::readable_type_name(other),
      " through a reference to its base, and would keep members of the old one; assign to the member itself");
}

namespace detail {

std::size_t reach_of(const Module& handle) {
  std::size_t size = 0;
  std::size_t* const before = std::exchange(t_size, &size);
  delete &handle;  // NOLINT(clang-analyzer-*): deletes nothing, see above
  t_size = before;
  return static_cast<std::size_t>(address(dynamic_cast<const void*>(&handle)) + size - address(&handle));
}

void enroll(const Module& handle) {
  const std::lock_guard lock(registry().mutex);
  registry().handles.insert(&handle);
  if (const auto& state = ModuleState::shared(handle))
    state->handles.push_back({&handle, std::this_thread::get_id()});
}

void withdraw(const Module& handle) {
  const std::lock_guard lock(registry().mutex);
  registry().handles.erase(&handle);
  if (const auto& state = ModuleState::shared(handle)) remove(state->handles, handle);
}

void rebind(const Module& handle, ModuleState* from) {
  const std::lock_guard lock(registry().mutex);
  if (from) remove(from->handles, handle);
  if (const auto& state = ModuleState::shared(handle))
    state->handles.push_back({&handle, std::this_thread::get_id()});
}

std::vector<const Module*> handles_in(const void* from, const void* to) {
  const std::lock_guard lock(registry().mutex);
  const auto& all = registry().handles;
  return {all.lower_bound(static_cast<const Module*>(from)), all.lower_bound(static_cast<const Module*>(to))};
}

std::vector<const Module*> structs_of(const Module& handle) {
  const std::lock_guard lock(registry().mutex);
  std::vector<const Module*> list = {&handle};
  for (const ModuleState::Handle& one : ModuleState::of(handle).handles)
    if (one.at != &handle && one.thread == std::this_thread::get_id() && typeid(*one.at) != typeid(Module))
      list.push_back(one.at);
  return list;
}

void note_reach(const Module& handle) {
  const std::lock_guard lock(registry().mutex);
  ModuleState& state = ModuleState::of(handle);
  state.reach = std::max(state.reach, reach_of(handle));
}

bool Seat::is_copy_in_struct(const Seat& from) const {
  if (!from.holds_ || !from.entry_->owner) return false;
  const std::lock_guard lock(registry().mutex);
  const ModuleState& module = *from.entry_->owner;
  const Module *to = enclosing(this, module), *of = enclosing(&from, module);
  return to || of ? to && of && to != of : is_wanting(*from.entry_);
}

bool Seat::is_move_in_struct(const Seat& from) const {
  if (!from.entry_ || !from.entry_->owner) return false;
  const std::lock_guard lock(registry().mutex);
  const ModuleState& module = *from.entry_->owner;
  return enclosing(this, module) && !enclosing(&from, module);
}

// Whether the struct that this is a member of is being assigned. Its base is a handle to the other module already.
bool Seat::is_left_behind(const Seat& from) const {
  const std::lock_guard lock(registry().mutex);
  if (enclosing(this, *entry_->owner) || !from.entry_ || !from.entry_->owner) return false;
  return enclosing(this, *from.entry_->owner) || (holds_ && entry_->holders > count_structs(*entry_->owner) &&
                                                  from.holds_ && is_wanting(*from.entry_));
}

Seat::Seat(const Seat& from) {
  if (cloning()) {
    if (from.holds_)
      if (const auto cloned = clone_of(from.entry_)) settle(cloned);
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
  if (holds_ && entry_ == from.entry_) return;  // members of two handles to one module
  if (is_copy_in_struct(from)) {
    settle(from.entry_);
  } else {
    release();
  }
}

void Seat::follow(Seat&& from) noexcept {
  const bool part = is_move_in_struct(from);
  release();
  entry_ = from.entry_;
  holds_ = std::exchange(from.holds_, false);
  if (part) from.entry_.reset();
}

Entry* Seat::to_rewrite(const Seat& from) {
  if (!entry_ || !entry_->owner || entry_ == from.entry_ || is_left_behind(from)) return nullptr;
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

}  // namespace detail
}  // namespace ct::nn
