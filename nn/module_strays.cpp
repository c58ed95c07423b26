#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <mutex>
#include <set>
#include <utility>

#include <cotangent/core/base/error.h>
#include <cotangent/nn/module_internal.h>

// Layers that a struct has and its module does not: nobody passed them to add(), so they are not trained, saved or moved.
// Layers left alone: frozen ones, those whose own parameters() were asked for, those that are a part of another module, and
// clones of the module's own layers, as target networks are. A layer behind a pointer or a reference belongs to somebody
// else.

namespace ct::nn::detail {
namespace {

using States = std::unordered_set<const ModuleState*>;

States states_of(const Module& root) {
  States all;
  ModuleState::visit(root, [&](const std::string&, const Module& m) { all.insert(&ModuleState::of(m)); });
  return all;
}

/// "Linear (weight [2, 4], bias [2])"
std::string describe_layer(const Module& layer) {
  std::string text;
  visit_slots(layer, true, [&](const std::string& path, const Entry& entry) {
    if (!entry.slot->is_buffer)
      text += (text.empty() ? " (" : ", ") + path + ' ' + ct::to_string(entry.slot->tensor.shape());
  });
  return readable_type_name(typeid(layer)) + (text.empty() ? "" : text + ')');
}

/// The handles that vectors in the object hold. A vector is three pointers: to the first of some that lie side by side, to
/// behind the last one, and to where its memory ends. (Two references to neighbours are not: the second is to a handle.)
std::vector<const Module*> handles_in_vectors(const char* object, const char* end) {
  std::vector<const Module*> found;
  const auto handle_at = [](const char* p) {
    // Any word is tried, of which the next address may be no pointer.
    const auto next = reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(p) + 1);
    const std::vector<const Module*> one = handles_in(p, next);
    return one.empty() ? nullptr : one[0];
  };
  const char* words[3] = {};
  for (const char* at = object; at + sizeof words <= end; at += sizeof(void*)) {
    std::memcpy(words, at, sizeof words);
    const auto [first, behind, capacity] = words;
    if (!first || first >= behind || behind > capacity || (first >= object && first < end)) continue;
    const Module* handle = handle_at(first);
    if (!handle || handle_at(behind)) continue;
    const auto size = static_cast<std::ptrdiff_t>(reach_of(*handle));
    if ((behind - first) % size != 0 || (capacity - first) % size != 0) continue;
    std::vector<const Module*> items;
    for (const char* item = first; item < behind && (handle = handle_at(item)); item += size)
      items.push_back(handle);
    if (items.size() == static_cast<std::size_t>((behind - first) / size))
      found.insert(found.end(), items.begin(), items.end());
  }
  return found;
}

/// Whether a step of an optimizer over the tree should have changed it.
bool is_to_be_trained(const Module& stray, const States& tree,
                      const std::unordered_set<const TensorImpl*>& own) {
  const ModuleState& state = ModuleState::of(stray);
  if (tree.contains(&state) || state.asked != 0 || state.parents != 0) return false;
  if (const auto origin = state.origin.lock(); origin)
    for (const ModuleState* one : tree)
      if (one == origin.get() || one->origin.lock() == origin) return false;
  bool trains = false;
  visit_slots(stray, true, [&](const std::string&, const Entry& entry) {
    const Tensor& tensor = entry.slot->tensor;
    trains |= !entry.slot->is_buffer && tensor.requires_grad() && !own.contains(tensor.impl());
  });
  return trains;
}

}  // namespace

std::vector<Stray> find_strays(const Module& holder) {
  std::vector<Stray> strays;
  const States tree = states_of(holder);
  const std::string name = readable_type_name(typeid(holder));
  const auto add = [&](const Module& handle, const char* where) {
    const std::shared_ptr<ModuleState>& state = ModuleState::shared(handle);
    if (!state || tree.contains(state.get())) return false;
    strays.push_back({state, name, describe_layer(handle) + where});
    return true;
  };
  const char* const object = reinterpret_cast<const char*>(&holder);
  const char *const end = object + reach_of(holder), *behind = object + 1;
  for (const Module* handle : handles_in(object + 1, end)) {
    const char* const at = reinterpret_cast<const char*>(handle);
    if (at >= behind && add(*handle, "")) behind = at + reach_of(*handle);  // passes over what lies in it
  }
  for (const Module* handle : handles_in_vectors(object + sizeof(Module), end)) add(*handle, " in a vector");
  return strays;
}

void report_strays(const Module& root) {
  ModuleState& state = ModuleState::of(root);
  const std::vector<const Module*> structs = structs_of(root);
  std::size_t reach = 0;
  for (const Module* one : structs) reach = std::max(reach, reach_of(*one));
  if (state.asked.load(std::memory_order_relaxed) >= reach) return;
  state.asked = reach;

  std::vector<Stray> strays;
  for (const Module* one : structs)
    for (Stray& stray : find_strays(*one)) strays.push_back(std::move(stray));
  std::unordered_set<const TensorImpl*> own;
  ModuleState::visit(root, [&](const std::string&, const Module& m) {
    const ModuleState& part = ModuleState::of(m);
    strays.insert(strays.end(), part.strays.begin(), part.strays.end());
    for (const auto& entry : part.slots) own.insert(entry->slot->tensor.impl());
  });
  std::ranges::reverse(strays);  // the innermost struct names what lies in several
  const States tree = states_of(root);
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& said = *new std::set<std::string>;
  States seen;
  for (const Stray& stray : strays) {
    const std::shared_ptr<ModuleState> layer = stray.state.lock();
    if (!layer || !seen.insert(layer.get()).second ||
        !is_to_be_trained(ModuleState::handle(layer), tree, own))
      continue;
    const std::string text = ct::detail::cat(
        "[module] warning: ", stray.holder, " has a member of type ", stray.what,
        " that was never passed to add(): it is not among the parameters, so no optimizer trains it and no "
        "file has it; register it, as in `head = add(\"head\", head)` (several in an nn::ModuleList), or "
        "call "
        "requires_grad_(false) on it if it is meant to stay outside\n");
    const std::lock_guard lock(mutex);
    if (said.insert(text).second) std::cerr << text << std::flush;
  }
}

}  // namespace ct::nn::detail
