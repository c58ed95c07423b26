#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cotangent/cotangent.h>

// What the files of the module share: how a Python object is read as a C++ value, with an error that says what it was
// given, what it is, and what is wanted; and options structs as keyword arguments.

namespace ct::python {

namespace nb = nanobind;

/// The interpreter is free while this runs: for functions that touch C++ alone.
using Unlocked = nb::call_guard<nb::gil_scoped_release>;

// Each file of the folder adds its part to the module.
void bind_tensor(nb::module_& m);
void bind_exchange(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_training(nb::module_& m);
void bind_function(nb::module_& m);
void bind_own_op(nb::module_& m);
void bind_models(nb::module_& m);
void bind_optim(nb::module_& m);
void bind_extras(nb::module_& m);

/// Something of Python's that C++ keeps: it may go in any thread, and after the interpreter itself.
template <class T>
struct Kept {
  explicit Kept(T from) : value(new T(std::move(from))) {}
  ~Kept() {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire lock;
    delete value;
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  T* value;
};

/// Where a value goes: of which call, and its name there. `op` and `name` outlive the call that reads it.
struct Argument {
  const char* op;
  const char* name;
  /// Throws TypeError: "[conv2d] stride is a str; an int or a pair of ints is wanted".
  [[noreturn]] void refuse(nb::handle value, const char* wanted) const;
};

// Reading a value throws TypeError for one of another kind, and what its C++ type throws for one out of range.
void read(const Argument& argument, nb::handle value, bool& to);
void read(const Argument& argument, nb::handle value, std::int64_t& to);
void read(const Argument& argument, nb::handle value, double& to);
void read(const Argument& argument, nb::handle value, std::string& to);
void read(const Argument& argument, nb::handle value, Scalar& to);
void read(const Argument& argument, nb::handle value, Dims& to);
void read(const Argument& argument, nb::handle value, DType& to);
void read(const Argument& argument, nb::handle value, Device& to);
void read(const Argument& argument, nb::handle value, Size2d& to);
void read(const Argument& argument, nb::handle value, ConvPadding& to);
/// A tensor, or what hands out its memory (NumPy's arrays, PyTorch's tensors); None where there is none.
void read(const Argument& argument, nb::handle value, Tensor& to);
void read(const Argument& argument, nb::handle value, int& to);
void read(const Argument& argument, nb::handle value, std::vector<std::int64_t>& to);
/// {"factor": 8.0, ..}
void read(const Argument& argument, nb::handle value, nn::models::RopeScaling& to);
/// A function of Python's, or None.
template <class R, class... Args>
void read(const Argument& argument, nb::handle value, std::function<R(Args...)>& to) {
  if (!nb::try_cast(value, to)) argument.refuse(value, "a function, or None");
}
template <std::derived_from<std::optional<Size2d>> T>
requires(!std::same_as<T, std::optional<Size2d>>) void read(const Argument& argument, nb::handle value,
                                                            T& to) {
  Size2d size;
  if (!value.is_none()) read(argument, value, size), to = T(size);
}
template <class T>
void read(const Argument& argument, nb::handle value, std::optional<T>& to) {
  T inner{};
  if (!value.is_none()) read(argument, value, inner), to = inner;
}
/// One of the words that name an enum's values from 0 on.
void read_choice(const Argument& argument, nb::handle value, std::string_view words, std::uint64_t& to);
/// Enums whose names every loss has: "none", "mean", "sum".
inline void read(const Argument& argument, nb::handle value, Reduction& to) {
  std::uint64_t index = 0;
  read_choice(argument, value, "none mean sum", index);
  to = static_cast<Reduction>(index);
}
inline void read(const Argument& argument, nb::handle value, Gelu& to) {
  std::uint64_t index = 0;
  read_choice(argument, value, "none tanh", index);
  to = index == 0 ? Gelu::exact : Gelu::tanh;
}
inline void read(const Argument& argument, nb::handle value, optim::LineSearch& to) {
  std::uint64_t index = 0;
  read_choice(argument, value, "none strong_wolfe", index);
  to = static_cast<optim::LineSearch>(index);
}
template <class T>
T read_as(const Argument& argument, nb::handle value) {
  T result{};
  read(argument, value, result);
  return result;
}
/// f(2, 3), or f((2, 3)).
Dims read_dims(const char* op, nb::args values);

/// The memory of an object with __dlpack__, as a tensor: nothing is copied. Throws TypeError, DTypeError, DeviceError.
Tensor from_dlpack(nb::handle source);
nb::object to_python(const Scalar& value);

/// A StateDict as a dict of tensors and values by their names, and back.
nb::dict to_python(const StateDict& state);
StateDict read_state(const char* op, const nb::dict& state);

/// A field of an options struct: its name and its place.
template <class Options, class T>
struct Field {
  const char* name;
  T Options::*place;
};
template <class Options, class T>
Field(const char*, T Options::*) -> Field<Options, T>;

#define CT_FIELD(Options, name) \
  ::ct::python::Field { #name, &Options::name }

[[noreturn]] void refuse_option(const char* op, nb::handle name, std::initializer_list<const char*> known);

/// Keyword arguments as an options struct, whose own defaults stand for what is left out.
template <class Options, class... Types>
Options read_options(const char* op, const nb::kwargs& given, const Field<Options, Types>&... fields) {
  Options options{};
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    const bool known =
        ((name == fields.name && (read(Argument{op, fields.name}, value, options.*fields.place), true)) ||
         ...);
    if (!known) refuse_option(op, key, {fields.name...});
  }
  return options;
}

/// A guard of C++ for the time of a `with`, or of a function's calls. One object may be entered again and again, by several
/// threads too: each leaves what it entered last.
template <class Guard, class Argument>
class Scope {
 public:
  explicit Scope(Argument argument) : argument_(std::move(argument)) {}
  ~Scope() {
    for (Entry& entry : entered_)  // what another thread never left is not this thread's to undo
      if (entry.first != std::this_thread::get_id()) entry.second.release();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  void enter() { entered_.emplace_back(std::this_thread::get_id(), std::make_unique<Guard>(argument_)); }
  void leave() {
    const auto last = std::find_if(entered_.rbegin(), entered_.rend(), [](const Entry& entry) {
      return entry.first == std::this_thread::get_id();
    });
    CT_CHECK(last != entered_.rend(), Error, "with",
             "the block is left in a thread that has not entered it; leave it where it was entered");
    entered_.erase(std::next(last).base());
  }

  static nb::class_<Scope> bind(nb::module_& m, const char* name, const char* doc) {
    return nb::class_<Scope>(m, name, doc)
        .def("__enter__", &Scope::enter)
        .def("__exit__", [](Scope& scope, const nb::args&) { scope.leave(); })
        .def(
            "__call__",
            [](nb::handle self, nb::handle function) {
              return nb::module_::import_("cotangent._grad").attr("_decorate")(self, function);
            },
            nb::arg("function"),
            nb::sig("def __call__(self, function: collections.abc.Callable) -> typing.Any"),
            "As a decorator: each call of the function runs in here.");
  }

 private:
  using Entry = std::pair<std::thread::id, std::unique_ptr<Guard>>;
  Argument argument_;
  std::vector<Entry> entered_;
};

/// A str or os.PathLike.
std::string read_path(const char* op, nb::handle path);

}  // namespace ct::python
