#include "bindings_internal.h"

#include <cmath>
#include <exception>
#include <sstream>
#include <unordered_map>

#include <nanobind/operators.h>

// The tensor itself: what it is, conversion, indices, operators, gradients. Its other methods are ops, which
// cotangent/__init__.py adds.

namespace ct::python {
namespace {

nb::tuple to_tuple(const Dims& dims) { return nb::tuple(nb::cast(std::vector(dims.begin(), dims.end()))); }

nb::object from_package(const char* name) { return nb::module_::import_("cotangent._array").attr(name); }

// ---- Python's own objects by the tensors' identity (bindings_internal.h) ------------------------------------

// Weak references. Entries of dead objects are removed when there are twice as many entries as after the last
// removal.
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

// ---- Operands of a tensor -----------------------------------------------------------------------------------

// A number, a tensor, or an array. An error of reading it is thrown where it is used, as casters can't throw.
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

// A Tensor of Python's own: a tensor that is changed in place, or needs no conversion, is returned as the same
// object.
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
      } else if (hasattr(source, "__dlpack__") || hasattr(source, "__array__")) {
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
  Tensor turned(const Tensor& t) const { return backwards.empty() ? t : t.flip(backwards); }
};

using Kind = TensorIndex::Kind;

// Slice of a flipped axis of n elements that gives the elements of a slice with a negative step, in its order.
Slice mirrored(Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step, std::int64_t n) {
  const std::int64_t count = PySlice_AdjustIndices(n, &start, &stop, step), from = n - 1 - start;
  return count == 0 ? Slice(0, 0) : Slice(from, from + (count - 1) * -step + 1, -step);
}

TensorIndex read_index(nb::handle value) {
  if (value.is_none()) return None;
  if (value.ptr() == Py_Ellipsis) return Ellipsis;
  if (!PyLong_CheckExact(value.ptr()) && nb::isinstance<Tensor>(value)) return *nb::inst_ptr<Tensor>(value);
  const std::optional<Scalar> number = as_number(value, {"index", "an index"});
  if (number && number->kind() == Scalar::Kind::boolean) return full({}, *number, {.dtype = boolean});
  if (number && !number->is_floating()) return number->to<std::int64_t>();
  if (number || nb::isinstance<nb::str>(value)) Argument{"index", "an index"}.refuse(value, "an int");
  return nb::cast<Tensor>(from_package("_as_index")(value));
}

int axes_of(const TensorIndex& index) {
  if (index.kind() == Kind::tensor) return index.tensor().dtype() == boolean ? index.tensor().dim() : 1;
  return index.kind() == Kind::number || index.kind() == Kind::slice ? 1 : 0;
}

Key read_key(const Tensor& t, nb::handle given) {
  Key key;
  const nb::object all = PyTuple_Check(given.ptr()) ? nb::borrow(given) : nb::make_tuple(given);
  struct Backwards {
    std::size_t place;
    Py_ssize_t start, stop, step;
  };
  std::vector<Backwards> slices;
  for (nb::handle one : nb::borrow<nb::tuple>(all)) {
    if (!PySlice_Check(one.ptr())) {
      key.indices.push_back(read_index(one));
      continue;
    }
    Backwards s{key.indices.size(), 0, 0, 1};
    if (PySlice_Unpack(one.ptr(), &s.start, &s.stop, &s.step) < 0) nb::raise_python_error();
    if (s.step < 0) slices.push_back(s);
    key.indices.emplace_back(Slice(s.start, s.stop, std::max<Py_ssize_t>(s.step, 1)));
  }
  if (slices.empty()) return key;
  int rest = t.dim();  // of an Ellipsis
  for (const TensorIndex& index : key.indices) rest -= axes_of(index);
  for (const auto& [place, start, stop, step] : slices) {
    int axis = 0;
    for (std::size_t i = 0; i < place; ++i)
      axis += key.indices[i].kind() == Kind::ellipsis ? rest : axes_of(key.indices[i]);
    if (axis < 0 || axis >= t.dim()) continue;  // index() says what is wrong
    key.backwards.push_back(axis);
    key.indices[place] = mirrored(start, stop, step, t.shape()[axis]);
  }
  return key;
}

Tensor get_item(const Tensor& t, nb::handle given) {
  if (PyLong_CheckExact(given.ptr()) && t.dim() > 0)
    return t.select(0, read_as<std::int64_t>({"index", "an index"}, given));
  const Key key = read_key(t, given);
  const Released unlocked;
  return key.turned(t).index(key.indices);
}

void set_item(Tensor& t, nb::handle given, nb::handle value) {
  const Key key = read_key(t, given);
  const std::optional<Scalar> number = as_number(value, {"index_put_", "the value"});
  Tensor values;
  if (!number) values = nb::cast<Tensor>(from_package("as_tensor")(value)).to(t.device());
  while (values.defined() && values.dim() > 0 && values.shape()[0] == 1)
    values = values.squeeze(0);  // as in NumPy
  const Released unlocked;
  Tensor whole = key.turned(t);
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

std::int64_t to_index(const Tensor& t) {
  if (!is_integral(t.dtype()) || t.numel() != 1)
    throw nb::type_error(
        detail::cat("[index] the tensor is ", describe(t), "; one integer is wanted").c_str());
  return t.item<std::int64_t>();
}

// ---- Conversion ---------------------------------------------------------------------------------------------------

Self require_grad(nb::pointer_and_handle<Tensor> self, bool value) {
  self.p->set_requires_grad(value);
  if (value) remember(self.h);
  return {nb::borrow(self.h)};
}

// The same Python object where nothing has to be done.
Self same_or(nb::pointer_and_handle<Tensor> self, Tensor result) {
  return {result.is_same(*self.p) ? nb::borrow(self.h) : nb::cast(std::move(result))};
}

Self to(nb::pointer_and_handle<Tensor> self, const nb::args& where, const nb::kwargs& named) {
  To to = read_options("to", named, Field{"dtype", &To::dtype}, Field{"device", &To::device},
                       Field{"copy", &To::copy}, Field{"non_blocking", &To::non_blocking});
  for (nb::handle one : where) read({"to", "an argument"}, one, to);
  Tensor result = *self.p;
  {
    const Released unlocked;
    if (to.dtype) result = result.to(*to.dtype);
    if (to.device) result = result.to(*to.device);
    if (to.copy && result.is_same(*self.p)) result = result.clone();
  }
  return same_or(self, std::move(result));
}

// name(self, other)
template <class F>
void bind_operator(nb::class_<Tensor>& tensor, const std::string& name, F f) {
  tensor.def(
      name.c_str(),
      [f](const Tensor& a, const Operand& b) {
        return b.beside(a, [&](const auto& value) -> Tensor { return f(a, value); });
      },
      nb::is_operator(), Unlocked());
}
// Binds, for the word add, __add__, __radd__ and __iadd__; without a C++ function for the last one, copy_() writes
// the result.
template <class F, class InPlace = std::nullptr_t>
void bind_arithmetic(nb::class_<Tensor>& tensor, const std::string& word, F f, InPlace in_place = {}) {
  bind_operator(tensor, "__" + word + "__", f);
  bind_operator(tensor, "__r" + word + "__", [f](const auto& b, const auto& a) { return f(a, b); });
  const auto change = [=](nb::pointer_and_handle<Tensor> self, const Operand& other) {
    {
      const Released unlocked;
      if constexpr (std::is_same_v<InPlace, std::nullptr_t>)
        assign(word.c_str(), *self.p, other, f);
      else
        other.beside(*self.p, [&](const auto& value) -> Tensor { return in_place(*self.p, value); });
    }
    return Self{nb::borrow(self.h)};
  };
  tensor.def(("__i" + word + "__").c_str(), change, nb::is_operator());
}

#define CT_OF(...) [](auto& a, const auto& b) -> Tensor { return __VA_ARGS__; }
void bind_operators(nb::class_<Tensor>& tensor) {
  bind_arithmetic(tensor, "add", CT_OF(a + b), CT_OF(a.add_(b)));
  bind_arithmetic(tensor, "sub", CT_OF(a - b), CT_OF(a.sub_(b)));
  bind_arithmetic(tensor, "mul", CT_OF(a * b), CT_OF(a.mul_(b)));
  bind_arithmetic(tensor, "truediv", CT_OF(a / b), CT_OF(a.div_(b)));
  bind_arithmetic(tensor, "floordiv", CT_OF(floor_divide(a, b)));
  bind_arithmetic(tensor, "mod", CT_OF(remainder(a, b)));
  bind_arithmetic(tensor, "pow", CT_OF(pow(a, b)));
  bind_arithmetic(tensor, "and", CT_OF(bitwise_and(a, b)));
  bind_arithmetic(tensor, "or", CT_OF(bitwise_or(a, b)));
  bind_arithmetic(tensor, "xor", CT_OF(bitwise_xor(a, b)));
  bind_arithmetic(tensor, "lshift", CT_OF(bitwise_left_shift(a, b)));
  bind_arithmetic(tensor, "rshift", CT_OF(bitwise_right_shift(a, b)));
  bind_arithmetic(tensor, "matmul", [](const auto& a, const auto& b) -> Tensor {
    if constexpr (std::is_same_v<decltype(a), decltype(b)>)
      return a.matmul(b);
    else
      throw nb::type_error("[matmul] got a number; tensors of rank 1 or more are wanted: * is for numbers");
  });
  bind_operator(tensor, "__eq__", CT_OF(eq(a, b)));
  bind_operator(tensor, "__ne__", CT_OF(ne(a, b)));
  bind_operator(tensor, "__lt__", CT_OF(lt(a, b)));
  bind_operator(tensor, "__le__", CT_OF(le(a, b)));
  bind_operator(tensor, "__gt__", CT_OF(gt(a, b)));
  bind_operator(tensor, "__ge__", CT_OF(ge(a, b)));
  const auto bind = [&](const char* name, auto f) { tensor.def(name, f, Unlocked()); };
  bind("__neg__", [](const Tensor& t) { return -t; });
  bind("__abs__", [](const Tensor& t) { return t.abs(); });
  bind("__invert__", [](const Tensor& t) { return bitwise_not(t); });
  tensor.def("__pos__", [](nb::pointer_and_handle<Tensor> self) { return same_or(self, *self.p); });
}
#undef CT_OF

// x.float(), x.long(): PyTorch's names of conversions.
void bind_conversions(nb::class_<Tensor>& tensor) {
  constexpr const char* kNames[] = {"float", "double", "half", "bfloat16", "long", "int", "byte", "bool"};
  for (int i = 0; i < kDTypeCount; ++i)
    tensor.def(kNames[i], [i](nb::pointer_and_handle<Tensor> self) {
      return same_or(self, self.p->to(static_cast<DType>(i)));
    });
  tensor.def("to", &to, nb::arg("where"), nb::arg("more"),
             "On a device, in a dtype, or both: x.to(\"cuda\", ct.bf16), x.to(other). Itself where it is so "
             "already. Arguments: dtype, device, copy=False, non_blocking=False (which changes nothing).");
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
  nb::enum_<DType> dtypes(m, "DType", "The type of a tensor's elements.");
  constexpr const char* kNames[] = {"f32", "f64", "f16", "bf16", "i64", "i32", "u8", "boolean"};
  for (int i = 0; i < kDTypeCount; ++i) dtypes.value(kNames[i], static_cast<DType>(i));
  dtypes.export_values();

  nb::class_<Tensor> tensor(
      m, "Tensor", nb::is_weak_referenceable(), nb::type_slots(tensor_slots),
      "A multi-dimensional array on one device. Made by tensor(), zeros(), from_dlpack(), ..");
  tensor.def_prop_ro("shape", [](const Tensor& t) { return to_tuple(t.shape()); })
      .def_prop_ro(
          "strides", [](const Tensor& t) { return to_tuple(t.strides()); }, "In elements.")
      .def_prop_ro(
          "T",
          [](const Tensor& t) {
            Dims axes;
            for (int axis = t.dim(); axis-- > 0;) axes.push_back(axis);
            return t.permute(axes);
          },
          "The axes the other way round: a view.")
      .def_prop_ro(
          "mT", [](const Tensor& t) { return t.transpose(-2, -1); }, "Matrices transposed: a view.")
      .def_prop_ro("device", [](const Tensor& t) { return to_string(t.device()); })
      .def_prop_ro("itemsize", [](const Tensor& t) { return size_of(t.dtype()); })
      .def_prop_ro(
          "grad_fn",
          [](const Tensor& t) {
            return t.is_leaf() ? std::nullopt : std::optional<std::string>(t.grad_fn_name());
          },
          "The name of the op that made it, None for leaves.")
      .def_prop_rw("requires_grad", &Tensor::requires_grad, &require_grad)
      .def("requires_grad_", &require_grad, nb::arg("requires_grad") = true)
      .def_prop_rw(
          "grad", [](const Tensor& t) { return t.grad().defined() ? std::optional(t.grad()) : std::nullopt; },
          [](Tensor& t, nb::handle grad) {
            t.set_grad(read_as<Tensor>({"grad", "value"}, grad));
          },
          nb::for_setter(nb::arg("value").none()))
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
      .def("__int__", [](const Tensor& t) { return nb::int_(to_python(only("int", t))); })
      .def("__index__", &to_index)
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
      .def("storage_offset", &Tensor::storage_offset)
      .def("is_contiguous", &Tensor::is_contiguous)
      .def("detach", &Tensor::detach)
      .def("element_size", [](const Tensor& t) { return size_of(t.dtype()); })
      .def("is_floating_point", [](const Tensor& t) { return is_floating(t.dtype()); })
      .def("data_ptr", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw_data()); })
      .def(
          "item", [](const Tensor& t) { return to_python(only("item", t)); }, "The one element as a number.")
      .def("retain_grad", &Tensor::retain_grad)
      .def(
          "backward",
          [](const Tensor& t, const Tensor* gradient, bool retain_graph) {
            t.backward(gradient == nullptr ? Tensor() : *gradient, retain_graph);
          },
          nb::arg("gradient") = nb::none(), nb::arg("retain_graph") = false, Unlocked(),
          "Adds d(this)/d(leaf) to every leaf's grad. `gradient` is this tensor's cotangent; a tensor with "
          "one element needs none.")
      .def("__getitem__", &get_item, nb::arg("key").none())
      .def("__setitem__", &set_item, nb::arg("key").none(), nb::arg("value"));
  bind_operators(tensor);
  bind_conversions(tensor);

  m.def(
      "grad",
      [](const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs, const nb::list& gradients,
         bool retain_graph, bool create_graph, bool allow_unused) {
        std::vector<Tensor> cotangents;
        for (nb::handle one : gradients) cotangents.push_back(read_as<Tensor>({"grad", "a gradient"}, one));
        const Released unlocked;
        return grad(
            outputs, inputs, cotangents,
            {.retain_graph = retain_graph, .allow_unused = allow_unused, .create_graph = create_graph});
      },
      nb::arg("outputs"), nb::arg("inputs"), nb::arg("gradients") = nb::list(),
      nb::arg("retain_graph") = false, nb::arg("create_graph") = false, nb::arg("allow_unused") = false);
}

}  // namespace ct::python
