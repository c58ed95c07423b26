#include "bindings_internal.h"

#include <cmath>
#include <cstring>
#include <exception>
#include <sstream>
#include <unordered_map>

#include <nanobind/operators.h>

// The tensor itself: what it is, conversion, indices, operators, gradients. What else it can do are ops, which
// cotangent/__init__.py gives it as methods.

namespace ct::python {
namespace {

nb::tuple to_tuple(const Dims& dims) {
  nb::list list;
  for (const std::int64_t one : dims) list.append(one);
  return nb::tuple(list);
}

bool is_array(nb::handle value) {
  return nb::hasattr(value, "__dlpack__") || nb::hasattr(value, "__array__");
}

// ---- Python's own objects by the tensors' identity (bindings_internal.h) ------------------------------------

// Weak references. Those of objects that are gone leave when there are twice as many as at the last time.
struct Wrappers {
  std::unordered_map<const TensorImpl*, PyObject*> weak;
  std::size_t limit = 64;

  void sweep() {
    std::erase_if(weak, [](const auto& entry) {
      const bool gone = nb::steal(PyObject_CallNoArgs(entry.second)).is_none();
      if (gone) Py_DECREF(entry.second);
      return gone;
    });
    limit = std::max<std::size_t>(64, 2 * weak.size());
  }
};
Wrappers& wrappers() {
  static auto* const all = new Wrappers;  // outlives the interpreter, as C++'s tensors may
  return *all;
}

// ---- What stands beside a tensor ----------------------------------------------------------------------------

// A number, a tensor, or an array of others. An error of reading it is thrown where it is used, for casters can't.
struct Operand {
  const Tensor* tensor = nullptr;  // Python's, which outlives the call
  Tensor array;
  Scalar number;
  std::exception_ptr error;

  // f(number) or f(tensor); an array goes to the device of the tensor that it stands beside.
  template <class F>
  auto beside(const Tensor& other, F f) const {
    if (error) std::rethrow_exception(error);
    if (tensor != nullptr) return f(*tensor);
    return array.defined() ? f(array.to(other.device())) : f(number);
  }
  bool requires_grad() const { return tensor != nullptr && tensor->requires_grad(); }
};

// A Tensor of Python's own: what is changed in place, or needs no conversion, is given back as the object it is.
struct Self {
  nb::object object;
};

}  // namespace
}  // namespace ct::python

template <>
struct nanobind::detail::type_caster<ct::python::Self> {
  NB_TYPE_CASTER(ct::python::Self, const_name<ct::Tensor>())

  static handle from_cpp(const ct::python::Self& self, rv_policy, cleanup_list*) noexcept {
    return self.object.inc_ref();
  }
};

template <>
struct nanobind::detail::type_caster<ct::python::Operand> {
  NB_TYPE_CASTER(ct::python::Operand,
                 const_name<ct::Tensor>() + const_name(" | float | numpy.ndarray | numpy.generic"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    try {
      if (isinstance<ct::Tensor>(source)) {
        value.tensor = inst_ptr<ct::Tensor>(source);
      } else if (const auto number = ct::python::as_number(source, {"number", "the number"})) {
        value.number = *number;
      } else if (ct::python::is_array(source)) {
        value.array = ct::python::read_as<ct::Tensor>({"operator", "the array"}, source);
      } else {
        return false;
      }
    } catch (...) { value.error = std::current_exception(); }
    return true;
  }
};

namespace ct::python {
namespace {

// ---- In place -------------------------------------------------------------------------------------------------

// Throws AutogradError, in Python's words, for a change that the tape can't hold.
void check_in_place(const char* op, const Tensor& t, bool other_requires_grad) {
  if (!grad_enabled() || !(t.requires_grad() || other_requires_grad)) return;
  CT_CHECK(!t.requires_grad() || !t.is_leaf(), AutogradError, op, "a leaf that requires a gradient, ",
           describe(t),
           ", can't be changed in place while recording; change it inside of `with ct.no_grad():`");
  CT_CHECK(!t.impl()->is_view, AutogradError, op, "an in-place change of a view, ", describe(t),
           ", can't be recorded on the tape; write `x[i] = x[i] + y` for `x[i] += y`, or make the whole by "
           "ct.cat() or ct.stack()");
}

int category(DType t) { return is_floating(t) ? 2 : is_integral(t) ? 1 : 0; }

// t = f(t, other) in place, for what C++ has no in-place function for.
template <class F>
void assign(const char* op, Tensor& t, const Operand& other, F f) {
  const bool recorded = grad_enabled() && (t.requires_grad() || other.requires_grad());
  const Tensor before = recorded ? t.clone() : t;  // the gradient may need it
  const Tensor result = other.beside(t, [&](const auto& value) { return Tensor(f(before, value)); });
  CT_CHECK(category(result.dtype()) <= category(t.dtype()), DTypeError, op, "a result of dtype ",
           result.dtype(), " can't be written in place into ", describe(t), "; use the out-of-place form");
  CT_CHECK(result.shape() == t.shape(), ShapeError, op, "the result has shape ", result.shape(),
           " and can't be written in place into ", describe(t), "; use the out-of-place form");
  t.copy_(result);
}

// ---- Indices ----------------------------------------------------------------------------------------------------

struct Key {
  std::vector<TensorIndex> indices;
  Dims backwards;  // axes that a slice goes along with a negative step: they are turned around first
};

using Kind = TensorIndex::Kind;

// A slice as Python reads it: bounds beyond all sizes are cut, step is not 0.
struct Range {
  Py_ssize_t start = 0, stop = 0, step = 1;
  explicit Range(nb::handle slice) {
    if (PySlice_Unpack(slice.ptr(), &start, &stop, &step) < 0) nb::raise_python_error();
  }
  // The same elements in the same order, of an axis of n elements that was turned around; step < 0.
  Slice mirrored(std::int64_t n) const {
    Py_ssize_t first = start, end = stop;
    const std::int64_t count = PySlice_AdjustIndices(n, &first, &end, step);
    const std::int64_t from = n - 1 - first;
    return count == 0 ? Slice(0, 0) : Slice(from, from + (count - 1) * -step + 1, -step);
  }
};

TensorIndex read_index(nb::handle value) {
  if (value.is_none()) return None;
  if (value.ptr() == Py_Ellipsis) return Ellipsis;
  if (!PyLong_CheckExact(value.ptr()) && nb::isinstance<Tensor>(value)) return *nb::inst_ptr<Tensor>(value);
  const std::optional<Scalar> number = as_number(value, {"index", "an index"});
  if (number && number->kind() == Scalar::Kind::boolean) return full({}, *number, {.dtype = boolean});
  if (number && !number->is_floating()) return number->to<std::int64_t>();
  if (number || nb::isinstance<nb::str>(value)) Argument{"index", "an index"}.refuse(value, "an int");
  return nb::cast<Tensor>(nb::module_::import_("cotangent._array").attr("_as_index")(value));
}

Key read_key(const Tensor& t, nb::handle given) {
  Key key;
  std::vector<std::pair<std::size_t, Range>> backwards;
  const auto add = [&](nb::handle one) {
    if (!PySlice_Check(one.ptr())) return key.indices.push_back(read_index(one));
    const Range range(one);
    if (range.step < 0) backwards.emplace_back(key.indices.size(), range);
    key.indices.emplace_back(Slice(range.start, range.stop, std::max<Py_ssize_t>(range.step, 1)));
  };
  if (PyTuple_Check(given.ptr())) {
    for (nb::handle one : nb::borrow<nb::tuple>(given)) add(one);
  } else {
    add(given);
  }
  if (backwards.empty()) return key;
  const auto axes_of = [](const TensorIndex& index) {
    if (index.kind() == Kind::tensor) return index.tensor().dtype() == boolean ? index.tensor().dim() : 1;
    return index.kind() == Kind::number || index.kind() == Kind::slice ? 1 : 0;
  };
  int taken = 0;
  for (const TensorIndex& index : key.indices) taken += axes_of(index);
  for (const auto& [place, range] : backwards) {
    int axis = 0;
    for (std::size_t i = 0; i < place; ++i)
      axis += key.indices[i].kind() == Kind::ellipsis ? t.dim() - taken : axes_of(key.indices[i]);
    if (axis < 0 || axis >= t.dim()) continue;  // index() says what is wrong
    key.backwards.push_back(axis);
    key.indices[place] = range.mirrored(t.shape()[axis]);
  }
  return key;
}

Tensor get_item(const Tensor& t, nb::handle given) {
  const Key key = read_key(t, given);
  const Released unlocked;
  return (key.backwards.empty() ? t : t.flip(key.backwards)).index(key.indices);
}

// Lists are read as tensor() does, into the target's dtype. Sizes of 1 in front are left out, as in NumPy.
Tensor read_values(const Tensor& target, nb::handle value) {
  if (value.is_none() || nb::isinstance<nb::str>(value))
    Argument{"index_put_", "the value"}.refuse(value, "a number, a tensor, an array or a list");
  Tensor values = is_array(value)
                      ? read_as<Tensor>({"index_put_", "the value"}, value)
                      : nb::cast<Tensor>(nb::module_::import_("cotangent._array").attr("tensor")(value));
  int ones = 0;
  while (ones < values.dim() && values.shape()[ones] == 1) ++ones;
  if (ones == 0) return values.to(target.device());
  Shape rest;
  for (int i = ones; i < values.dim(); ++i) rest.push_back(values.shape()[i]);
  return values.reshape(rest).to(target.device());
}

void set_item(Tensor& t, nb::handle given, nb::handle value) {
  const Key key = read_key(t, given);
  const std::optional<Scalar> number = as_number(value, {"index_put_", "the value"});
  const Tensor values = number ? Tensor() : read_values(t, value);
  check_in_place("index_put_", t, values.defined() && values.requires_grad());
  const Released unlocked;
  Tensor whole = key.backwards.empty() ? t : t.flip(key.backwards);
  number ? whole.index_put_(key.indices, *number) : whole.index_put_(key.indices, values);
  if (!key.backwards.empty()) t.copy_(whole.flip(key.backwards));
}

// ---- One element -------------------------------------------------------------------------------------------------

Scalar only(const char* op, const Tensor& t) {
  CT_CHECK(t.numel() == 1, ShapeError, op, "the tensor is ", describe(t),
           "; one element is wanted: x[i] selects one, x.sum() makes one of all, x.tolist() gives each");
  return t.item_scalar();
}

bool truth(const Tensor& t) {
  CT_CHECK(t.numel() == 1, ShapeError, "bool", "the tensor is ", describe(t),
           ", which is neither true nor false; x.any() or x.all() is, and &, | and ~ join masks");
  return t.item<bool>();
}

nb::int_ to_int(const Tensor& t) {
  const Scalar value = only("int", t);
  if (!value.is_floating()) return nb::int_(value.to<std::int64_t>());
  const auto whole = nb::steal<nb::int_>(PyLong_FromDouble(value.to<double>()));
  if (!whole.is_valid()) nb::raise_python_error();
  return whole;
}

std::int64_t to_index(const Tensor& t) {
  if (!is_integral(t.dtype()) || t.numel() != 1)
    throw nb::type_error(
        detail::cat("[index] the tensor is ", describe(t), "; one integer is wanted").c_str());
  return t.item<std::int64_t>();
}

nb::str to_format(nb::pointer_and_handle<Tensor> self, const nb::str& format) {
  if (nb::len(format) == 0) return nb::str(self.h);
  if (self.p->numel() != 1)
    throw nb::type_error(detail::cat("[format] the tensor is ", describe(*self.p), "; '",
                                     nb::cast<std::string>(format),
                                     "' is for one element: x[i] or x.item(), or use np.array2string(x)")
                             .c_str());
  return nb::str(to_python(only("format", *self.p)).attr("__format__")(format));
}

Tensor round_to(const Tensor& t, std::optional<int> digits) {
  const int places = digits.value_or(0);
  if (!is_floating(t.dtype())) return places >= 0 ? t : round_to(t.to(f64), places).to(t.dtype());
  const double power = std::pow(10.0, std::abs(places));
  return places < 0 ? (t / power).round() * power : places > 0 ? (t * power).round() / power : t.round();
}

// ---- Conversion ---------------------------------------------------------------------------------------------------

// The same Python object where nothing has to be done.
Self same_or(nb::pointer_and_handle<Tensor> self, Tensor result) {
  return {result.is_same(*self.p) ? nb::borrow(self.h) : nb::cast(std::move(result))};
}

Self to(nb::pointer_and_handle<Tensor> self, const nb::args& where, const nb::kwargs& named) {
  std::optional<DType> dtype;
  std::optional<Device> device;
  bool copy = false;
  const auto take = [&](nb::handle one) {
    if (nb::isinstance<Tensor>(one)) {
      dtype = nb::inst_ptr<Tensor>(one)->dtype();
      device = nb::inst_ptr<Tensor>(one)->device();
    } else if (const auto known = as_dtype(one)) {
      dtype = known;
    } else {
      device = read_as<Device>({"to", "an argument"}, one);
    }
  };
  for (nb::handle one : where) take(one);
  for (const auto& [key, value] : named) {
    const auto name = nb::cast<std::string>(key);
    if (name == "dtype") {
      read({"to", "dtype"}, value, dtype);
    } else if (name == "device") {
      read({"to", "device"}, value, device);
    } else if (name == "copy" || name == "non_blocking") {
      const bool given = read_as<bool>({"to", name.c_str()}, value);
      copy = copy || (given && name == "copy");
    } else {
      refuse_option("to", key, {"dtype", "device", "copy", "non_blocking"});
    }
  }
  Tensor result = *self.p;
  {
    const Released unlocked;
    if (dtype) result = result.to(*dtype);
    if (device) result = result.to(*device);
    if (copy && result.is_same(*self.p)) result = result.clone();
  }
  return same_or(self, std::move(result));
}

Tensor from_bytes(const nb::bytes& data, nb::handle dtype, nb::handle shape) {
  Tensor t = empty(read_as<Dims>({"from_bytes", "the shape"}, shape),
                   {.dtype = read_as<DType>({"from_bytes", "the dtype"}, dtype)});
  CT_CHECK(static_cast<std::int64_t>(data.size()) == t.nbytes(), ValueError, "from_bytes", "got ",
           data.size(), " bytes for ", describe(t), "; ", t.nbytes(), " are wanted");
  if (t.nbytes() > 0) std::memcpy(t.raw_data(), data.c_str(), data.size());
  return t;
}

TensorOptions make_options(const char* op, const nb::kwargs& given) {
  return read_options<TensorOptions>(op, given, Field{"dtype", &TensorOptions::dtype},
                                     Field{"device", &TensorOptions::device},
                                     Field{"requires_grad", &TensorOptions::requires_grad});
}

// name(self, other), and where there is a name for it reversed(self, other), which is f(other, self).
template <class F>
void bind_operator(nb::class_<Tensor>& tensor, const char* name, F f) {
  tensor.def(
      name,
      [f](const Tensor& a, const Operand& b) {
        return b.beside(a, [&](const auto& value) -> Tensor { return f(a, value); });
      },
      nb::is_operator(), Unlocked());
}
// With name(self, other) as __add__, also __radd__ and __iadd__.
template <class F, class InPlace>
void bind_operator(nb::class_<Tensor>& tensor, const std::string& word, F f, InPlace in_place) {
  bind_operator(tensor, ("__" + word + "__").c_str(), f);
  tensor.def(("__r" + word + "__").c_str(),
             [f](const Tensor& b, const Operand& a) {
               return a.beside(b, [&](const auto& value) -> Tensor { return f(value, b); });
             },
             nb::is_operator(), Unlocked());
  tensor.def(("__i" + word + "__").c_str(),
             [word, in_place](nb::pointer_and_handle<Tensor> self, const Operand& other) {
               check_in_place(word.c_str(), *self.p, other.requires_grad());
               {
                 const Released unlocked;
                 in_place(*self.p, other);
               }
               return Self{nb::borrow(self.h)};
             },
             nb::is_operator());
}
// The same, written by copy_().
template <class F>
void bind_operator(nb::class_<Tensor>& tensor, const std::string& word, F f) {
  bind_operator(tensor, word, f,
                [word, f](Tensor& t, const Operand& other) { assign(word.c_str(), t, other, f); });
}

struct Product {  // numbers have none
  Tensor operator()(const Tensor& a, const Tensor& b) const { return a.matmul(b); }
  template <class A, class B>
  Tensor operator()(const A&, const B&) const {
    throw nb::type_error("[matmul] got a number; tensors of rank 1 or more are wanted: * is for numbers");
  }
};

#define CT_IN_PLACE(member)                                                        \
  [](Tensor& t, const Operand& other) {                                            \
    other.beside(t, [&](const auto& value) -> Tensor { return t.member(value); }); \
  }
void bind_operators(nb::class_<Tensor>& tensor) {
  bind_operator(
      tensor, "add", [](const auto& a, const auto& b) { return a + b; }, CT_IN_PLACE(add_));
  bind_operator(
      tensor, "sub", [](const auto& a, const auto& b) { return a - b; }, CT_IN_PLACE(sub_));
  bind_operator(
      tensor, "mul", [](const auto& a, const auto& b) { return a * b; }, CT_IN_PLACE(mul_));
  bind_operator(
      tensor, "truediv", [](const auto& a, const auto& b) { return a / b; }, CT_IN_PLACE(div_));
  const auto quotient = [](const auto& a, const auto& b) { return floor_divide(a, b); };
  const auto rest = [](const auto& a, const auto& b) { return remainder(a, b); };
  bind_operator(tensor, std::string("floordiv"), quotient);
  bind_operator(tensor, std::string("mod"), rest);
  bind_operator(tensor, std::string("pow"), [](const auto& a, const auto& b) { return pow(a, b); });
  bind_operator(tensor, std::string("and"), [](const auto& a, const auto& b) { return bitwise_and(a, b); });
  bind_operator(tensor, std::string("or"), [](const auto& a, const auto& b) { return bitwise_or(a, b); });
  bind_operator(tensor, std::string("xor"), [](const auto& a, const auto& b) { return bitwise_xor(a, b); });
  bind_operator(tensor, std::string("lshift"),
                [](const auto& a, const auto& b) { return bitwise_left_shift(a, b); });
  bind_operator(tensor, std::string("rshift"),
                [](const auto& a, const auto& b) { return bitwise_right_shift(a, b); });
  bind_operator(tensor, std::string("matmul"), Product());
  bind_operator(tensor, "__eq__", [](const auto& a, const auto& b) { return eq(a, b); });
  bind_operator(tensor, "__ne__", [](const auto& a, const auto& b) { return ne(a, b); });
  bind_operator(tensor, "__lt__", [](const auto& a, const auto& b) { return lt(a, b); });
  bind_operator(tensor, "__le__", [](const auto& a, const auto& b) { return le(a, b); });
  bind_operator(tensor, "__gt__", [](const auto& a, const auto& b) { return gt(a, b); });
  bind_operator(tensor, "__ge__", [](const auto& a, const auto& b) { return ge(a, b); });
  const auto both = [quotient, rest](const auto& a, const auto& b) {
    return std::pair<Tensor, Tensor>(quotient(a, b), rest(a, b));
  };
  tensor.def(
      "__divmod__",
      [both](const Tensor& a, const Operand& b) {
        return b.beside(a, [&](const auto& value) { return both(a, value); });
      },
      nb::is_operator(), Unlocked());
  tensor.def(
      "__rdivmod__",
      [both](const Tensor& b, const Operand& a) {
        return a.beside(b, [&](const auto& value) { return both(value, b); });
      },
      nb::is_operator(), Unlocked());
  tensor.def("__contains__", [](const Tensor& t, nb::handle given) {
    Operand one;
    if (!nb::try_cast(given, one)) Argument{"in", "the value"}.refuse(given, "a number or a tensor");
    const Released unlocked;
    return one.beside(t, [&](const auto& value) { return bool(eq(t, value).any()); });
  });
  tensor
      .def(
          "__neg__", [](const Tensor& t) { return -t; }, Unlocked())
      .def("__pos__", [](nb::pointer_and_handle<Tensor> self) { return same_or(self, *self.p); })
      .def(
          "__abs__", [](const Tensor& t) { return t.abs(); }, Unlocked())
      .def(
          "__invert__", [](const Tensor& t) { return bitwise_not(t); }, Unlocked())
      .def("__round__", &round_to, nb::arg("ndigits") = nb::none(), Unlocked());
}
#undef CT_IN_PLACE

// x.float(), x.long(): PyTorch's names of conversions.
void bind_conversions(nb::class_<Tensor>& tensor) {
  const std::pair<const char*, DType> names[] = {{"float", f32},     {"double", f64},  {"half", f16},
                                                 {"bfloat16", bf16}, {"long", i64},    {"int", i32},
                                                 {"byte", u8},       {"bool", boolean}};
  for (const auto& [name, dtype] : names)
    tensor.def(name, [dtype = dtype](nb::pointer_and_handle<Tensor> self) {
      return same_or(self, self.p->to(dtype));
    });
  tensor
      .def("to", &to, nb::arg("where"), nb::arg("more"),
           "On a device, in a dtype, or both: x.to(\"cuda\", ct.bf16), x.to(other). Itself where it is so "
           "already. Arguments: dtype, device, copy=False, non_blocking=False (which changes nothing).")
      .def("cpu", [](nb::pointer_and_handle<Tensor> self) { return same_or(self, self.p->to(cpu)); })
      .def(
          "cuda",
          [](nb::pointer_and_handle<Tensor> self, int index) {
            return same_or(self, self.p->to(cuda(index)));
          },
          nb::arg("device") = 0)
      .def(
          "type_as",
          [](nb::pointer_and_handle<Tensor> self, const Tensor& other) {
            return same_or(self, self.p->type_as(other));
          },
          nb::arg("other"));
}

template <class Make>
void bind_filled(nb::module_& m, const char* name, Make make) {
  m.def(
      name,
      [make, name](nb::args shape, const nb::kwargs& options) {
        return make(read_dims(name, shape), make_options(name, options));
      },
      "A new tensor of this shape. Arguments: dtype=f32, device=\"cpu\", requires_grad=False.");
}

void bind_creation(nb::module_& m) {
  bind_filled(m, "empty", [](const Shape& s, const TensorOptions& o) { return empty(s, o); });
  bind_filled(m, "zeros", [](const Shape& s, const TensorOptions& o) { return zeros(s, o); });
  bind_filled(m, "ones", [](const Shape& s, const TensorOptions& o) { return ones(s, o); });
  bind_filled(m, "rand", [](const Shape& s, const TensorOptions& o) { return rand(s, o); });
  bind_filled(m, "randn", [](const Shape& s, const TensorOptions& o) { return randn(s, o); });
  m.def(
      "full",
      [](nb::handle shape, nb::handle value, const nb::kwargs& options) {
        return full(read_as<Dims>({"full", "shape"}, shape), read_as<Scalar>({"full", "value"}, value),
                    make_options("full", options));
      },
      "A tensor of this shape, filled with a number: f32, i64 or bool as the number is, unless a dtype is "
      "given.");
  m.def(
      "arange",
      [](nb::args bounds, const nb::kwargs& options) {
        if (bounds.size() < 1 || bounds.size() > 3)
          throw nb::type_error("[arange] wants (end), (start, end) or (start, end, step)");
        std::vector<Scalar> n;
        for (nb::handle one : bounds) n.push_back(read_as<Scalar>({"arange", "a bound"}, one));
        return arange(n.size() > 1 ? n[0] : Scalar(0), n.size() > 1 ? n[1] : n[0],
                      n.size() > 2 ? n[2] : Scalar(1), make_options("arange", options));
      },
      "start, start + step, .. up to but without end.");
  m.def(
      "randint",
      [](std::int64_t low, std::int64_t high, nb::handle shape, const nb::kwargs& options) {
        return randint(low, high, read_as<Dims>({"randint", "shape"}, shape),
                       make_options("randint", options));
      },
      "Whole numbers from [low, high), i64 unless a dtype is given.");
}

}  // namespace

PyObject* known(const Tensor& leaf) noexcept {
  const auto found = wrappers().weak.find(leaf.impl());
  if (found == wrappers().weak.end()) return nullptr;
  nb::object object = nb::steal(PyObject_CallNoArgs(found->second));
  const bool alive = !object.is_none() && nb::inst_ptr<Tensor>(object)->is_same(leaf);
  return alive ? object.release().ptr() : nullptr;
}

void remember(nb::handle tensor) noexcept {
  Wrappers& all = wrappers();
  if (all.weak.size() >= all.limit) all.sweep();
  PyObject* const weak = PyWeakref_NewRef(tensor.ptr(), nullptr);
  if (weak == nullptr) return PyErr_Clear();  // without memory each time another object
  PyObject*& place = all.weak[nb::inst_ptr<Tensor>(tensor)->impl()];
  Py_XDECREF(std::exchange(place, weak));
}

void bind_tensor(nb::module_& m) {
  nb::enum_<DType>(m, "DType", "The type of a tensor's elements.")
      .value("f32", f32)
      .value("f64", f64)
      .value("f16", f16)
      .value("bf16", bf16)
      .value("i64", i64)
      .value("i32", i32)
      .value("u8", u8)
      .value("boolean", boolean)
      .export_values();

  nb::class_<Tensor> tensor(
      m, "Tensor", nb::is_weak_referenceable(), nb::type_slots(tensor_slots),
      "A multi-dimensional array on one device. Made by tensor(), zeros(), from_dlpack(), ..");
  tensor.def_prop_ro("shape", [](const Tensor& t) { return to_tuple(t.shape()); })
      .def_prop_ro(
          "strides", [](const Tensor& t) { return to_tuple(t.strides()); }, "In elements.")
      .def_prop_ro("ndim", &Tensor::dim)
      .def_prop_ro(
          "T",
          [](const Tensor& t) {
            Dims axes;
            for (int axis = t.dim() - 1; axis >= 0; --axis) axes.push_back(axis);
            return t.permute(axes);
          },
          "The axes the other way round: a view.")
      .def_prop_ro(
          "mT", [](const Tensor& t) { return t.transpose(-2, -1); }, "Matrices transposed: a view.")
      .def_prop_ro("dtype", &Tensor::dtype)
      .def_prop_ro("device", [](const Tensor& t) { return to_string(t.device()); })
      .def_prop_ro("is_cuda", &Tensor::is_cuda)
      .def_prop_ro("nbytes", &Tensor::nbytes)
      .def_prop_ro("itemsize", [](const Tensor& t) { return size_of(t.dtype()); })
      .def_prop_ro("is_leaf", &Tensor::is_leaf)
      .def_prop_ro(
          "grad_fn",
          [](const Tensor& t) {
            return t.is_leaf() ? std::nullopt : std::optional<std::string>(t.grad_fn_name());
          },
          "The name of the op that made it, None for leaves.")
      .def_prop_rw("requires_grad", &Tensor::requires_grad,
                   [](nb::pointer_and_handle<Tensor> self, bool value) {
                     self.p->set_requires_grad(value);
                     if (value) remember(self.h);
                   })
      .def(
          "requires_grad_",
          [](nb::pointer_and_handle<Tensor> self, bool value) {
            self.p->set_requires_grad(value);
            if (value) remember(self.h);
            return Self{nb::borrow(self.h)};
          },
          nb::arg("requires_grad") = true)
      .def_prop_rw(
          "grad",
          [](const Tensor& t) -> std::optional<Tensor> {
            Tensor grad = t.grad();
            return grad.defined() ? std::optional(std::move(grad)) : std::nullopt;
          },
          [](Tensor& t, nb::handle grad) {
            t.set_grad(read_as<Tensor>({"grad", "the gradient"}, grad));
          },
          nb::for_setter(nb::arg("value").none()))
      .def_prop_rw(
          "data", &Tensor::detach,
          [](Tensor& t, nb::handle value) {
            const Tensor data = read_as<Tensor>({"data", "the value"}, value);
            CT_CHECK(data.defined() && data.shape() == t.shape(), ShapeError, "data",
                     "the value has another shape than ", describe(t), "; a new tensor is wanted for that");
            const NoGrad guard;
            t.copy_(data);
          },
          "The same memory without history; what is assigned is written into it.")
      .def("__len__",
           [](const Tensor& t) {
             if (t.dim() == 0) throw nb::type_error("[len] a tensor of rank 0 has no len()");
             return t.size(0);
           })
      .def("__iter__",
           [](const Tensor& t) {
             if (t.dim() == 0) throw nb::type_error("[iter] a tensor of rank 0 has no rows to go along");
             return nb::borrow<nb::typed<nb::iterator, Tensor>>(nb::iter(nb::cast(t.unbind(0))));
           })
      .def("__bool__", &truth)
      .def("__float__", [](const Tensor& t) { return only("float", t).to<double>(); })
      .def("__int__", &to_int)
      .def("__index__", &to_index)
      .def("__format__", &to_format)
      .def("__repr__",
           [](const Tensor& t) {
             std::ostringstream out;
             out << t;
             return out.str();
           })
      .def("__hash__", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.impl()); })
      .def("numel", &Tensor::numel)
      .def("nelement", &Tensor::numel)
      .def("dim", &Tensor::dim)
      .def("element_size", [](const Tensor& t) { return size_of(t.dtype()); })
      .def("storage_offset", &Tensor::storage_offset)
      .def("is_floating_point", [](const Tensor& t) { return is_floating(t.dtype()); })
      .def("is_contiguous", &Tensor::is_contiguous)
      .def("data_ptr", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw_data()); })
      .def(
          "item", [](const Tensor& t) { return to_python(only("item", t)); }, "The one element as a number.")
      .def("_bytes",
           [](const Tensor& t) {
             const Tensor plain = t.detach().to(cpu).contiguous();
             return nb::bytes(plain.raw_data(), static_cast<std::size_t>(plain.nbytes()));
           })
      .def("reshape", [](const Tensor& t, nb::args shape) { return t.reshape(read_dims("reshape", shape)); })
      .def("view", [](const Tensor& t, nb::args shape) { return t.view(read_dims("view", shape)); })
      .def("expand", [](const Tensor& t, nb::args shape) { return t.expand(read_dims("expand", shape)); })
      .def("permute", [](const Tensor& t, nb::args axes) { return t.permute(read_dims("permute", axes)); })
      .def(
          "transpose", [](const Tensor& t, std::int64_t a, std::int64_t b) { return t.transpose(a, b); },
          nb::arg("axis0"), nb::arg("axis1"))
      .def("contiguous", &Tensor::contiguous, Unlocked())
      .def("clone", &Tensor::clone, Unlocked())
      .def("detach", &Tensor::detach)
      .def("retain_grad", &Tensor::retain_grad)
      .def(
          "backward",
          [](const Tensor& t, const std::optional<Tensor>& gradient, bool retain_graph) {
            t.backward(gradient.value_or(Tensor()), retain_graph);
          },
          nb::arg("gradient") = nb::none(), nb::arg("retain_graph") = false, Unlocked(),
          "Adds d(this)/d(leaf) to every leaf's grad. `gradient` is this tensor's cotangent; a tensor with "
          "one element "
          "needs none.")
      .def("__getitem__", &get_item, nb::arg("key").none())
      .def("__setitem__", &set_item, nb::arg("key").none(), nb::arg("value"))
      .def("__delitem__",
           [](const Tensor&, nb::handle) {
             throw nb::type_error(
                 "[del] elements of a tensor can't be deleted; x[mask] or ct.cat() makes another");
           })
      .def(
          "copy_",
          [](nb::pointer_and_handle<Tensor> self, nb::handle source) {
            const Tensor from = read_as<Tensor>({"copy_", "source"}, source);
            check_in_place("copy_", *self.p, from.defined() && from.requires_grad());
            self.p->copy_(from);
            return Self{nb::borrow(self.h)};
          },
          nb::arg("source"))
      .def("fill_", [](nb::pointer_and_handle<Tensor> self, nb::handle value) {
        const auto number = read_as<Scalar>({"fill_", "value"}, value);
        check_in_place("fill_", *self.p, false);
        self.p->fill_(number);
        return Self{nb::borrow(self.h)};
      });
  bind_operators(tensor);
  bind_conversions(tensor);
  m.def("_from_bytes", &from_bytes);

  bind_creation(m);
  m.def(
      "grad",
      [](const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
         const std::vector<std::optional<Tensor>>& gradients, bool retain_graph, bool create_graph,
         bool allow_unused) {
        std::vector<Tensor> cotangents;
        for (const auto& one : gradients) cotangents.push_back(one.value_or(Tensor()));
        const std::vector<Tensor> found =
            grad(outputs, inputs, cotangents,
                 {.retain_graph = retain_graph, .allow_unused = allow_unused, .create_graph = create_graph});
        std::vector<std::optional<Tensor>> result;
        for (const Tensor& one : found) result.push_back(one.defined() ? std::optional(one) : std::nullopt);
        return result;
      },
      nb::arg("outputs"), nb::arg("inputs"), nb::arg("gradients") = std::vector<std::optional<Tensor>>(),
      nb::arg("retain_graph") = false, nb::arg("create_graph") = false, nb::arg("allow_unused") = false,
      Unlocked(),
      "The gradients of the outputs, weighted by `gradients`, with respect to the inputs: a list. With "
      "create_graph they "
      "can be differentiated again.");
}

}  // namespace ct::python
