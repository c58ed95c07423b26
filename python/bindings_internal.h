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
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cotangent/cotangent.h>

#include "callback_internal.h"

namespace ct::python {

/// The Python object of a leaf that requires a gradient, where there is one (a new reference): `m.w is m.w`.
PyObject* known(const Tensor& leaf) noexcept;
/// Registers a Tensor of Python's, which known() returns as long as it lives.
void remember(nanobind::handle tensor) noexcept;

}  // namespace ct::python

/// An undefined tensor is None in Python.
template <>
struct nanobind::detail::type_caster<ct::Tensor> : type_caster_base<ct::Tensor> {
  template <class T>
  static handle from_cpp(T&& value, rv_policy policy, cleanup_list* cleanup) noexcept {
    const ct::Tensor* t;
    if constexpr (std::is_pointer_v<std::remove_reference_t<T>>) {
      t = value;
    } else {
      t = &value;
    }
    if (t == nullptr || !t->defined()) return none().release();
    if (!t->requires_grad() || !t->is_leaf())
      return type_caster_base::from_cpp(std::forward<T>(value), policy, cleanup);
    if (PyObject* const before = ct::python::known(*t)) return before;
    const handle made = type_caster_base::from_cpp(std::forward<T>(value), policy, cleanup);
    if (made.is_valid()) ct::python::remember(made);
    return made;
  }
};

// Shared parts of the module's files: how a Python object is read as a C++ value, with an error that says what it was
// given, what it is, and what is wanted; and options structs as keyword arguments.

namespace ct::python {

namespace nb = nanobind;

// Each file of the folder adds its part to the module.
using Binder = void(nb::module_& m);
Binder bind_errors, bind_tensor, bind_hooks, bind_exchange, bind_ops, bind_nn, bind_training, bind_function,
    bind_own_op, bind_models, bind_optim, bind_extras;
// Written by generate/bindings.py
Binder bind_functions, bind_layers, bind_optimizers, bind_plain, bind_members;

/// Argument that a value is read for: its call, and its name there. `op` and `name` outlive the call that reads it.
struct Argument {
  const char* op;
  const char* name;
  /// Throws TypeError: "[conv2d] stride is a str; an int or a pair of ints is wanted".
  [[noreturn]] void refuse(nb::handle value, const char* wanted) const;
};

/// Whether it is a number: Python's, NumPy's (numpy.generic), or what has __index__; arrays are tensors.
bool is_number(nb::handle value);
/// The number that it is; none for what is no number. Throws ValueError for an int beyond 64 bits.
std::optional<Scalar> as_number(nb::handle value, const Argument& argument = {"number", "the number"});

/// The dtype that it is or names: cotangent.f32, "f32", "float32", numpy.float32, torch.float32.
std::optional<DType> as_dtype(nb::handle value);

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
/// A tensor, or an array (NumPy's, PyTorch's) whose memory is shared where that is possible; None where there is none.
void read(const Argument& argument, nb::handle value, Tensor& to);
void read(const Argument& argument, nb::handle value, int& to);
void read(const Argument& argument, nb::handle value, std::uint64_t& to);
void read(const Argument& argument, nb::handle value, char& to);
void read(const Argument& argument, nb::handle value, std::vector<std::int64_t>& to);
void read(const Argument& argument, nb::handle value, std::vector<double>& to);
void read(const Argument& argument, nb::handle value, std::vector<std::string>& to);
void read(const Argument& argument, nb::handle value, std::vector<Tensor>& to);
/// Where a tensor goes, and in which dtype.
struct To {
  std::optional<DType> dtype;
  std::optional<Device> device;
  bool copy = false, non_blocking = false;
};
/// A device, a dtype, or another tensor for both, beside what was read before.
void read(const Argument& argument, nb::handle value, To& to);
/// A dict of tensors and values.
void read(const Argument& argument, nb::handle value, StateDict& to);
/// A function of Python's, or None.
template <class R, class... Args>
void read(const Argument& argument, nb::handle value, std::function<R(Args...)>& to) {
  if (!nb::try_cast(value, to)) argument.refuse(value, "a function, or None");
}
template <std::derived_from<std::optional<Size2d>> T>
requires(!std::same_as<T, std::optional<Size2d>>) void read(const Argument& argument, nb::handle value,
                                                            T& to) {
  Size2d size;
  if (!value.is_none()) read(argument, value, size);
  to = value.is_none() ? T() : T(size);
}
template <class T>
void read(const Argument& argument, nb::handle value, std::optional<T>& to) {
  T inner{};
  if (!value.is_none()) read(argument, value, inner);
  to = value.is_none() ? std::nullopt : std::optional<T>(std::move(inner));
}
/// Calls f with our names of an argument that PyTorch or NumPy calls so, until it gives true.
void each_alias(std::string_view theirs, const std::function<bool(std::string_view ours)>& f);
/// One of the words that name an enum's values from 0 on.
void read_choice(const Argument& argument, nb::handle value, std::string_view words, std::uint64_t& to);
template <class T>
T read_as(const Argument& argument, nb::handle value) {
  T result{};
  read(argument, value, result);
  return result;
}

/// The memory of an object with __dlpack__ or of its capsule, as a tensor: shared, unless a copy is asked for. Throws
/// TypeError, DTypeError, DeviceError, ValueError.
Tensor from_dlpack(nb::handle source, bool copy = false);
nb::object to_python(const Scalar& value);

/// A StateDict as a dict of tensors and values by their names.
nb::dict to_python(const StateDict& state);
/// Parameters of an optimizer: tensors, or pairs of a name and a tensor. A tensor by itself is one parameter with `one`; else
/// it throws TypeError, as iteration would give its rows.
std::vector<Tensor> read_params(const Argument& argument, nb::handle params, bool one = false);
/// The number of examples of a dataset, or `data` itself if it is a number.
std::int64_t read_size(const Argument& argument, nb::handle data);
/// A field of an options struct: its name and its place.
template <class Options, class T>
struct Field {
  const char* name;
  T Options::*place;
};
template <class Options, class T>
Field(const char*, T Options::*) -> Field<Options, T>;

[[noreturn]] void refuse_option(const char* op, nb::handle name, std::initializer_list<const char*> known);

/// Keyword arguments as an options struct, whose own defaults stand for what is left out.
template <class Options, class... Types>
Options read_options(const char* op, const nb::dict& given, const Field<Options, Types>&... fields) {
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
std::string read_path(const Argument& argument, nb::handle path);

}  // namespace ct::python
