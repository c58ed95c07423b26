#pragma once

#include <array>
#include <span>
#include <string_view>

#include "bindings_internal.h"

// Calls of generated functions: how Python's arguments find their places in a C++ signature. generate/bindings.py writes a
// FunctionDef for each public function, constructor and forward(); call.cpp has the Python type `Function` that they become.

namespace ct::python {

/// A number, a pair (height, width), or None.
void read(const Argument& argument, nb::handle value, OptionalScale2d& to);
/// So many numbers.
template <class T, std::size_t kCount>
void read(const Argument& argument, nb::handle value, std::array<T, kCount>& to) {
  if (!nb::isinstance<nb::sequence>(value) || nb::len(value) != kCount)
    argument.refuse(value, "a sequence of numbers, as many as by default,");
  for (std::size_t i = 0; i < kCount; ++i) read(argument, value[i], to[i]);
}

/// Kind of values that an argument's place takes, as far as it decides between overloads.
enum class Kind : std::uint8_t { any, module, tensor, tensors, number, integer, real, flag, dims, dtype };

/// The place of an argument. A name behind `required` may be left out.
struct Slot {
  const char* name;
  Kind kind = Kind::any;
  bool required = true;
};

/// The arguments of one call, by place; null where one is left out.
class Values {
 public:
  Values(const char* op, std::span<const Slot> slots, PyObject* const* values)
      : op_(op), slots_(slots), values_(values) {}

  bool given(std::size_t i) const { return values_[i] != nullptr; }
  nb::handle operator[](std::size_t i) const { return values_[i]; }
  Argument argument(std::size_t i) const { return {op_, slots_[i].name}; }

  template <class T>
  T get(std::size_t i) const {
    const nb::handle value = values_[i];
    return read_as<T>(argument(i), value);
  }
  template <class T>
  T get(std::size_t i, T fallback) const {
    return given(i) ? get<T>(i) : fallback;
  }
  /// None stands for the default, too: of axes, and of a generator.
  template <class T>
  T get_unless_none(std::size_t i, T fallback) const {
    return given(i) && values_[i] != Py_None ? get<T>(i) : fallback;
  }
  /// Sets a field of an options struct where its argument is given.
  template <class T>
  void put(std::size_t i, T& to) const {
    if (given(i)) read(argument(i), nb::handle(values_[i]), to);
  }
  /// A tensor, or what shares its memory; a number beside tensors takes their dtype.
  Tensor tensor(std::size_t i) const;
  Tensor optional_tensor(std::size_t i) const { return given(i) ? tensor(i) : Tensor(); }
  std::vector<Tensor> tensors(std::size_t i) const;
  Generator& generator(std::size_t i) const;
  /// The C++ object inside of a Python one: the tensor that an in-place function changes, the module of a forward().
  template <class T>
  T& object(std::size_t i) const {
    T* found = nullptr;
    if (!nb::try_cast(nb::handle(values_[i]), found) || found == nullptr) refuse_object(i, nb::type<T>());
    return *found;
  }
  /// Null where there is none.
  template <class T>
  T* pointer(std::size_t i) const {
    return given(i) && values_[i] != Py_None ? &object<T>(i) : nullptr;
  }

 private:
  [[noreturn]] void refuse_object(std::size_t i, nb::handle type) const;

  const char* op_;
  std::span<const Slot> slots_;
  PyObject* const* values_;
};

/// A model is shared and not copied: its class in Python is a handle of the module and of the model.
struct Model : nn::Module {
  explicit Model(std::shared_ptr<nn::models::LanguageModel> from) : Module(*from), it(std::move(from)) {}
  std::shared_ptr<nn::models::LanguageModel> it;
};
template <>
inline nn::models::LanguageModel& Values::object(std::size_t i) const {
  return *object<Model>(i).it;
}

/// One C++ signature. Sizes or tensors given one by one, zeros(2, 3), are gathered into place `gathers`, unless
/// that is -1.
struct Overload {
  std::span<const Slot> slots;
  nb::object (*run)(const Values&);
  int gathers = -1;
};

/// A function as Python sees it. A constructor's object is in place 0, as a capsule of its address.
struct FunctionDef {
  const char* name;
  const char* op;         // what errors name: of a layer's forward() the layer
  const char* signature;  // Python's, of all overloads together
  const char* doc;
  std::span<const Overload> overloads;
};

/// Calls the overload that the arguments fit. Throws TypeError, with the signature, where none does.
nb::object call(const FunctionDef& def, PyObject* const* args, std::size_t positional, PyObject* names);
/// The Python function of a definition, in the module of this name.
nb::object make_function(const FunctionDef& def, const char* module);
/// Constructs an object for a class' __init__, and keeps in it what it was made with.
void construct(const FunctionDef& def, nb::handle self, void* place, const nb::args& args,
               const nb::kwargs& named);

/// Sets Python's error of the C++ exception that is being handled.
void raise_current() noexcept;
/// f(), or null with Python's error set.
template <class F>
PyObject* guarded(F f) noexcept {
  try {
    return f();
  } catch (...) {
    raise_current();
    return nullptr;
  }
}

/// f() while the interpreter is free for others.
template <class F>
auto unlocked(F f) {
  const Released released;
  return f();
}

// ---- results ------------------------------------------------------------------------------------------------
/// The class of a named tuple, which lives as long as the process.
nb::object make_named(const char* name, const char* fields);

inline nb::object give(Tensor t) { return t.defined() ? nb::cast(std::move(t)) : nb::none(); }
inline nb::object give(const StateDict& state) { return to_python(state); }
template <class T>
nb::object give(T value) {
  return nb::cast(std::move(value));
}
template <class List>
requires(std::same_as<List, std::vector<Tensor>> || requires {
  std::tuple_size<List>::value;
  List().fill({});
}) nb::object give(List tensors) {
  nb::list made;
  for (auto& one : tensors) made.append(give(std::move(one)));
  return nb::tuple(made);
}

/// A function of the module, and a method of Tensor unless it has one of this name.
void publish(nb::module_& m, nb::handle tensor, const FunctionDef& def, bool function, bool method);

// ---- classes ------------------------------------------------------------------------------------------------
/// A class, which `maker` constructs, if anybody. An object shows what it was made with; `extra` is for nanobind.
template <class T, class... Base, class... Extra>
nb::class_<T, Base...> bind_class(nb::handle m, const char* name, const char* doc, const FunctionDef* maker,
                                  const Extra&... extra) {
  nb::class_<T, Base...> made(m, name, nb::dynamic_attr(), doc);
  if (maker == nullptr) return made;
  const auto init = [maker](nb::pointer_and_handle<T> self, const nb::args& args, const nb::kwargs& named) {
    construct(*maker, self.h, self.p, args, named);
  };
  made.def("__init__", init, extra...);
  made.attr("__signature__") = nb::module_::import_("cotangent._signature").attr("of")(maker->signature);
  return made;
}

}  // namespace ct::python
