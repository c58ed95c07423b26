#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <cotangent/core/base/error.h>
#include <cotangent/core/base/export.h>
#include <cotangent/core/tensor/tensor.h>

namespace ct {

/// A number, switch or text of a StateDict.
using StateValue = std::variant<bool, std::int64_t, double, std::string>;

/// The state of something as plain data: tensors by name in the order in which they were added, and small
/// values (counters, options) by name. Modules, optimizers, schedulers and loaders hand it out and take it back, and files
/// hold it.
///
///     for (const auto& [name, tensor] : model.state_dict()) std::cout << name << ' ' << tensor.shape();
///
/// The tensors are handles: state_dict() of a live object shares memory with it. deep_copy() does not.
class CT_API StateDict {
 public:
  using Entry = std::pair<std::string, Tensor>;

  StateDict();
  StateDict(const StateDict& other);
  StateDict(StateDict&& other) noexcept;
  StateDict& operator=(const StateDict& other);
  StateDict& operator=(StateDict&& other) noexcept;
  ~StateDict();
  /// `StateDict{{"weight", w}, {"bias", b}}`
  StateDict(std::initializer_list<Entry> entries);

  // ---- Tensors ------------------------------------------------------------------------------------------
  /// Adds a tensor, or replaces the one of this name in its place. Throws ValueError for an empty name or
  /// an undefined tensor.
  void set(std::string name, Tensor tensor);
  // References into a dict can't be taken of a temporary one: `model.state_dict().at("weight")`
  // is a tensor by value.

  /// The tensor of this name, or null.
  const Tensor* find(std::string_view name) const&;
  const Tensor* find(std::string_view name) && = delete;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// The tensor of this name. Throws ValueError if there is none; the message lists what there is.
  const Tensor& at(std::string_view name) const&;
  Tensor at(std::string_view name) && { return std::as_const(*this).at(name); }
  const Tensor& operator[](std::string_view name) const& { return at(name); }
  Tensor operator[](std::string_view name) && { return std::as_const(*this).at(name); }
  /// The number of tensors.
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty() && values_.empty(); }
  std::vector<Entry>::const_iterator begin() const& { return entries_.begin(); }
  std::vector<Entry>::const_iterator begin() && = delete;
  std::vector<Entry>::const_iterator end() const& { return entries_.end(); }
  std::vector<Entry>::const_iterator end() && = delete;

  // ---- Values -------------------------------------------------------------------------------------------
  void set_value(std::string name, StateValue value);
  /// Any integer is kept as 63 bits and a sign.
  template <std::integral T>
  requires(!std::same_as<T, bool>) void set_value(std::string name, T value) {
    set_value(std::move(name), StateValue(static_cast<std::int64_t>(value)));
  }
  void set_value(std::string name, const char* value);
  const StateValue* find_value(std::string_view name) const&;
  const StateValue* find_value(std::string_view name) && = delete;
  bool contains_value(std::string_view name) const { return find_value(name) != nullptr; }
  /// The value of this name as T: bool, std::int64_t, double (which an integer converts to) or std::string.
  /// Throws ValueError if there is none or it has another type.
  template <class T>
  T value(std::string_view name) const {
    const StateValue* found = find_value(name);
    if (!found) throw_no_value(name);
    if (const T* typed = std::get_if<T>(found)) return *typed;
    if constexpr (std::is_same_v<T, double>)
      if (const auto* integer = std::get_if<std::int64_t>(found)) return static_cast<double>(*integer);
    throw_wrong_type(name);
  }
  /// A counter, which goes on from here. Throws ValueError, in the name of `who`, for one that is negative or above 2^62: it
  /// would overflow one day.
  std::int64_t count(std::string_view name, const char* who) const;
  const std::map<std::string, StateValue, std::less<>>& values() const& { return values_; }
  std::map<std::string, StateValue, std::less<>> values() &&;

  // ---- Parts --------------------------------------------------------------------------------------------
  /// Adds everything of `part` under "prefix.name".
  void merge(const std::string& prefix, const StateDict& part);
  /// Everything that merge(prefix, ...) added.
  StateDict part(std::string_view prefix) const;
  /// The same with tensors of their own memory, on the CPU.
  StateDict deep_copy() const;

 private:
  [[noreturn]] void throw_no_value(std::string_view name) const;
  [[noreturn]] void throw_wrong_type(std::string_view name) const;

  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, StateValue, std::less<>> values_;
};

}  // namespace ct
