#include "bindings_internal.h"

#include <limits>

namespace ct::python {

void Argument::refuse(nb::handle value, const char* wanted) const {
  const std::string kind = nb::cast<std::string>(nb::handle(value.type()).attr("__name__"));
  throw nb::type_error(detail::cat('[', op, "] ", name, " is a ", kind, "; ", wanted, " is wanted").c_str());
}

namespace {

// The kind of number that an object is, by NumPy's letters: b, i, f, or 0 where it is none. Arrays are tensors, those of
// rank 0 too, though many have __index__.
char kind_of(nb::handle value) {
  PyObject* const p = value.ptr();
  if (PyBool_Check(p)) return 'b';
  if (PyLong_Check(p)) return 'i';
  if (PyFloat_Check(p)) return 'f';
  if (nb::isinstance<Tensor>(value)) return 0;
  static PyObject* const generic = nb::object(nb::module_::import_("numpy").attr("generic")).release().ptr();
  if (PyObject_TypeCheck(p, reinterpret_cast<PyTypeObject*>(generic))) {
    const char kind = nb::cast<std::string>(value.attr("dtype").attr("kind")).front();
    return kind == 'u' ? 'i' : kind == 'b' || kind == 'i' || kind == 'f' ? kind : '\0';
  }
  return PyIndex_Check(p) && !nb::hasattr(value, "__dlpack__") && !nb::hasattr(value, "__array__") ? 'i'
                                                                                                   : '\0';
}

// The value of __index__(); without it Python's own error is thrown.
std::int64_t whole(const Argument& argument, nb::handle value) {
  const auto number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) nb::raise_python_error();
  int overflow = 0;
  const std::int64_t result = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  CT_CHECK(overflow == 0, ValueError, argument.op, argument.name,
           " is beyond 64 bits; a smaller int is wanted");
  return result;
}

// Whether it is an int, or an array of one, which has no bool in it.
bool is_whole(nb::handle value) {
  const char kind = kind_of(value);
  if (kind != 0 || !PyIndex_Check(value.ptr())) return kind == 'i';
  const bool known = nb::steal(PyNumber_Index(value.ptr())).is_valid();
  PyErr_Clear();
  return known;
}

template <class List>
void read_list(const Argument& argument, nb::handle value, const char* wanted, List& to) {
  if (!PySequence_Check(value.ptr()) || nb::isinstance<nb::str>(value) || PyBytes_Check(value.ptr()))
    argument.refuse(value, wanted);
  to = {};
  for (nb::handle one : value)
    to.push_back(read_as<std::remove_cvref_t<decltype(*to.begin())>>(argument, one));
}

}  // namespace

bool is_number(nb::handle value) { return kind_of(value) != 0; }

std::optional<Scalar> as_number(nb::handle value, const Argument& argument) {
  const char kind = kind_of(value);
  if (kind == 0) return std::nullopt;
  if (kind == 'i') return Scalar(whole(argument, value));
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred()) nb::raise_python_error();
  return kind == 'b' ? Scalar(number != 0) : Scalar(number);
}

void read(const Argument& argument, nb::handle value, bool& to) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      // PyTorch's, of what is a switch here
      {"maximize", "min max"},
      {"absolute", "rel abs"},
      {"linear", "cos linear"}};
  for (const auto& [name, words] : kWords)
    if (name == argument.name && nb::isinstance<nb::str>(value)) {
      std::uint64_t index = 0;
      read_choice(argument, value, words, index);
      return void(to = index == 1);
    }
  if (kind_of(value) != 'b') argument.refuse(value, "True or False");
  to = as_number(value)->to<bool>();
}
void read(const Argument& argument, nb::handle value, std::int64_t& to) {
  if (!is_whole(value)) argument.refuse(value, "an int");
  to = whole(argument, value);
}
void read(const Argument& argument, nb::handle value, int& to) {
  std::int64_t wide = 0;
  read(argument, value, wide);
  CT_CHECK(wide >= std::numeric_limits<int>::min() && wide <= std::numeric_limits<int>::max(), ValueError,
           argument.op, argument.name, " is ", wide, "; a number of 32 bits is wanted");
  to = static_cast<int>(wide);
}
void read(const Argument& argument, nb::handle value, double& to) {
  if (nb::isinstance<nb::str>(value) && nb::cast<std::string_view>(value) == "inf")  // as PyTorch has norms
    return void(to = std::numeric_limits<double>::infinity());
  const char kind = kind_of(value);
  if (kind != 'f' && kind != 'i') argument.refuse(value, "a number");
  to = PyFloat_AsDouble(value.ptr());
  if (to == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    detail::fail<ValueError>(argument.op, argument.name, " is beyond a float; a smaller number is wanted");
  }
}
void read(const Argument& argument, nb::handle value, std::string& to) {
  if (!nb::isinstance<nb::str>(value)) argument.refuse(value, "a str");
  to = nb::cast<std::string>(value);
}
void read(const Argument& argument, nb::handle value, Scalar& to) {
  const std::optional<Scalar> number = as_number(value, argument);
  if (!number) argument.refuse(value, "a number");
  to = *number;
}
void read(const Argument& argument, nb::handle value, std::vector<std::int64_t>& to) {
  read_list(argument, value, "a sequence of ints", to);
}
void read(const Argument& argument, nb::handle value, std::vector<double>& to) {
  const nb::object numbers = nb::hasattr(value, "tolist") ? value.attr("tolist")() : nb::borrow(value);
  read_list(argument, numbers, "a sequence of numbers", to);
}
void read(const Argument& argument, nb::handle value, std::vector<Tensor>& to) {
  read_list(argument, value, "a list of tensors", to);
}
void read(const Argument& argument, nb::handle value, std::vector<std::string>& to) {
  read_list(argument, value, "a sequence of str", to);
}
void read(const Argument& argument, nb::handle value, std::uint64_t& to) {
  const auto number = read_as<std::int64_t>(argument, value);
  CT_CHECK(number >= 0, ValueError, argument.op, argument.name, " is ", number, "; it is 0 at least");
  to = static_cast<std::uint64_t>(number);
}
void read(const Argument& argument, nb::handle value, char& to) {
  const auto text = read_as<std::string>(argument, value);
  if (text.size() != 1) argument.refuse(value, "one character");
  to = text[0];
}
void read(const Argument& argument, nb::handle value, Dims& to) {
  if (!is_whole(value)) return read_list(argument, value, "an int or a sequence of ints", to);
  to = {read_as<std::int64_t>(argument, value)};
}
std::optional<DType> as_dtype(nb::handle value) {
  DType result{};
  if (nb::try_cast(value, result, false)) return result;
  const bool type = PyType_Check(value.ptr());  // numpy.float32, float
  if (value.is(nb::handle(reinterpret_cast<PyObject*>(&PyFloat_Type)))) return f64;
  if (value.is(nb::handle(reinterpret_cast<PyObject*>(&PyLong_Type)))) return i64;
  std::string word = nb::cast<std::string>(
      nb::str(type ? nb::object(value.attr("__name__")) : nb::getattr(value, "name", value)));
  if (word.starts_with("torch.")) word.erase(0, 6);
  static constexpr std::string_view kWords[] = {"float32", "float64", "float16", "bfloat16",
                                                "int64",   "int32",   "uint8",   "boolean"};
  if (word == "bool_") return boolean;
  for (int i = 0; i < kDTypeCount; ++i)
    if (word == kWords[i] || word == name(static_cast<DType>(i))) return static_cast<DType>(i);
  return std::nullopt;
}
void read(const Argument& argument, nb::handle value, DType& to) {
  const std::optional<DType> dtype = as_dtype(value);
  CT_CHECK(dtype.has_value(), DTypeError, argument.op, argument.name, " is ",
           printable(nb::cast<std::string>(nb::str(value))),
           "; a dtype is wanted: cotangent.f32, f64, f16, bf16, i64, i32, u8 or boolean");
  to = *dtype;
}
void read(const Argument& argument, nb::handle value, Device& to) {
  if (!nb::isinstance<nb::str>(value))
    argument.refuse(value, "a device (\"cpu\", \"cuda\", \"cuda:1\", \"auto\")");
  to = parse_device(nb::cast<std::string>(value));
}
void read(const Argument& argument, nb::handle value, To& to) {
  if (nb::isinstance<Tensor>(value)) {
    const Tensor& like = *nb::inst_ptr<Tensor>(value);
    to.dtype = like.dtype(), to.device = like.device();
  } else if (const std::optional<DType> dtype = as_dtype(value)) {
    to.dtype = dtype;
  } else if (!value.is_none()) {
    to.device = read_as<Device>(argument, value);
  }
}
void read(const Argument& argument, nb::handle value, Size2d& to) {
  const Dims sizes = read_as<Dims>(argument, value);
  if (sizes.size() != 2 && !is_whole(value)) argument.refuse(value, "an int or a pair of ints");
  to = sizes.size() == 1 ? Size2d(sizes[0]) : Size2d(sizes[0], sizes[1]);
}
void read(const Argument& argument, nb::handle value, ConvPadding& to) {
  to = nb::isinstance<nb::str>(value) ? ConvPadding(nb::cast<std::string>(value).c_str())
                                      : ConvPadding(read_as<Size2d>(argument, value));
}
void read(const Argument& argument, nb::handle value, Tensor& to) {
  if (value.is_none()) {
    to = Tensor();
  } else if (nb::isinstance<Tensor>(value)) {
    to = nb::cast<Tensor>(value);
  } else if (nb::hasattr(value, "__dlpack__") || nb::hasattr(value, "__array__")) {
    to = nb::cast<Tensor>(nb::module_::import_("cotangent._array").attr("as_tensor")(value));
  } else {
    argument.refuse(value, "a tensor (cotangent's, or an array with __dlpack__)");
  }
}
void read_choice(const Argument& argument, nb::handle value, std::string_view words, std::uint64_t& to) {
  const std::string given = read_as<std::string>(argument, value);
  std::string_view left = words;
  for (to = 0; !left.empty(); ++to) {
    const std::size_t end = std::min(left.find(' '), left.size());
    if (left.substr(0, end) == given) return;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  detail::fail<ValueError>(argument.op, argument.name, " is ", printable(given), "; it is one of: ", words);
}

nb::object to_python(const Scalar& value) {
  switch (value.kind()) {
    case Scalar::Kind::boolean: return nb::cast(value.to<bool>());
    case Scalar::Kind::integer: return nb::cast(value.to<std::int64_t>());
    default: return nb::cast(value.to<double>());
  }
}

nb::dict to_python(const StateDict& state) {
  nb::dict result;
  for (const auto& [name, tensor] : state) result[nb::cast(name)] = nb::cast(tensor);
  for (const auto& [name, value] : state.values())
    result[nb::cast(name)] = std::visit([](const auto& one) -> nb::object { return nb::cast(one); }, value);
  return result;
}
void read(const Argument& argument, nb::handle given, StateDict& to) {
  if (!nb::isinstance<nb::dict>(given)) argument.refuse(given, "a dict");
  for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
    const std::string name = read_as<std::string>({argument.op, "a key"}, key);
    if (nb::isinstance<nb::str>(value)) {
      to.set_value(name, StateValue(nb::cast<std::string>(value)));
    } else if (PyBool_Check(value.ptr())) {
      to.set_value(name, StateValue(nb::cast<bool>(value)));
    } else if (PyLong_Check(value.ptr())) {
      to.set_value(name, StateValue(read_as<std::int64_t>({argument.op, name.c_str()}, value)));
    } else if (PyFloat_Check(value.ptr())) {
      to.set_value(name, StateValue(nb::cast<double>(value)));
    } else {
      to.set(name, read_as<Tensor>({argument.op, name.c_str()}, value));
    }
  }
}
std::int64_t read_size(const Argument& argument, nb::handle data) {
  return nb::hasattr(data, "__len__") ? static_cast<std::int64_t>(nb::len(data))
                                      : read_as<std::int64_t>(argument, data);
}

void refuse_option(const char* op, nb::handle name, std::initializer_list<const char*> known) {
  std::string list;
  for (const char* one : known) list.append(list.empty() ? "" : ", ").append(one);
  throw nb::type_error(
      detail::cat('[', op, "] there is no argument '", nb::cast<std::string>(name), "'; there are ", list)
          .c_str());
}

}  // namespace ct::python
