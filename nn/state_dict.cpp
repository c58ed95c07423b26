#include <cotangent/nn/state_dict.h>

#include <cotangent/core/base/printable.h>
#include <cotangent/core/memory/memory.h>

namespace ct {
namespace {

std::string list_names(const std::vector<StateDict::Entry>& entries) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : entries) names.push_back(name);
  return names.empty() ? "no tensors" : printable_list(names);
}

}  // namespace

StateDict::StateDict() = default;
StateDict::StateDict(const StateDict& other) = default;
StateDict::StateDict(StateDict&& other) noexcept = default;
StateDict& StateDict::operator=(const StateDict& other) = default;
StateDict& StateDict::operator=(StateDict&& other) noexcept = default;
StateDict::~StateDict() = default;

StateDict::StateDict(std::initializer_list<Entry> entries) {
  for (const Entry& e : entries) set(e.first, e.second);
}

void StateDict::set(std::string name, Tensor tensor) {
  CT_CHECK(!name.empty(), ValueError, "state_dict",
           "a tensor was given without a name; every entry needs one");
  CT_CHECK(tensor.defined(), ValueError, "state_dict", "the tensor ", printable(name),
           " is undefined; leave it out instead");
  const auto [place, added] = index_.try_emplace(name, entries_.size());
  if (added) {
    entries_.emplace_back(std::move(name), std::move(tensor));
  } else {
    entries_[place->second].second = std::move(tensor);
  }
}

const Tensor* StateDict::find(std::string_view name) const& {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Tensor& StateDict::at(std::string_view name) const& {
  const Tensor* found = find(name);
  CT_CHECK(found, ValueError, "state_dict", "there is no tensor ", printable(name), "; there are ",
           list_names(entries_));
  return *found;
}

void StateDict::set_value(std::string name, StateValue value) { values_[std::move(name)] = std::move(value); }
void StateDict::set_value(std::string name, const char* value) {
  set_value(std::move(name), StateValue(std::string(value)));
}
std::map<std::string, StateValue, std::less<>> StateDict::values() && { return std::move(values_); }

const StateValue* StateDict::find_value(std::string_view name) const& {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::int64_t StateDict::count(std::string_view name, const char* who) const {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  const auto n = value<std::int64_t>(name);
  CT_CHECK(n >= 0 && n <= most, ValueError, who, "the state's '", name, "' is ", n,
           "; it must be in [0, 2^62]: the state is damaged");
  return n;
}

void StateDict::throw_no_value(std::string_view name) const {
  detail::fail<ValueError>("state_dict", "there is no value ", printable(name),
                           "; the state belongs to another kind of object or was cut");
}

void StateDict::throw_wrong_type(std::string_view name) const {
  constexpr const char* kinds[] = {"a bool", "an integer", "a floating number", "a text"};
  detail::fail<ValueError>("state_dict", "the value ", printable(name), " is ",
                           kinds[find_value(name)->index()], "; another type was asked for");
}

void StateDict::merge(const std::string& prefix, const StateDict& part) {
  const std::string dotted = prefix + '.';
  for (const auto& [name, tensor] : part.entries_) set(dotted + name, tensor);
  for (const auto& [name, value] : part.values_) set_value(dotted + name, value);
}

StateDict StateDict::part(std::string_view prefix) const {
  const auto inside = [&](const std::string& name) {
    return name.size() > prefix.size() + 1 && name.starts_with(prefix) && name[prefix.size()] == '.';
  };
  StateDict result;
  for (const auto& [name, tensor] : entries_)
    if (inside(name)) result.set(name.substr(prefix.size() + 1), tensor);
  for (const auto& [name, value] : values_)
    if (inside(name)) result.set_value(name.substr(prefix.size() + 1), value);
  return result;
}

StateDict StateDict::deep_copy() const {
  StateDict copy;
  for (const auto& [name, tensor] : entries_) {
    const Tensor dense = tensor.detach().contiguous();
    Tensor own = Tensor::allocate(dense.shape(), dense.dtype(), cpu);
    copy_bytes(own.raw_data(), cpu, dense.raw_data(), dense.device(),
               static_cast<std::size_t>(dense.nbytes()));
    copy.set(name, own);
  }
  copy.values_ = values_;
  return copy;
}

}  // namespace ct
