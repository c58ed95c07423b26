#include "bindings_internal.h"

#include <sstream>

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

std::optional<std::int64_t> bound(nb::handle value) {
  return read_as<std::optional<std::int64_t>>({"index", "a bound of a slice"}, value);
}
SliceBound as_bound(std::optional<std::int64_t> value) {
  return value ? SliceBound(*value) : SliceBound(None);
}

TensorIndex read_index(nb::handle value) {
  if (value.is_none()) return None;
  if (value.ptr() == Py_Ellipsis) return Ellipsis;
  if (nb::isinstance<nb::slice>(value)) {
    const std::int64_t step = bound(value.attr("step")).value_or(1);
    return Slice(as_bound(bound(value.attr("start"))), as_bound(bound(value.attr("stop"))), step);
  }
  if (nb::isinstance<Tensor>(value)) return nb::cast<Tensor>(value);
  if (PyIndex_Check(value.ptr()) && !PyBool_Check(value.ptr()))
    return read_as<std::int64_t>({"index", "an index"}, value);
  return read_as<Tensor>({"index", "an index"}, value);
}
std::vector<TensorIndex> read_indices(nb::handle key) {
  std::vector<TensorIndex> indices;
  if (nb::isinstance<nb::tuple>(key)) {
    for (nb::handle one : key) indices.push_back(read_index(one));
  } else {
    indices.push_back(read_index(key));
  }
  return indices;
}

TensorOptions make_options(const char* op, const nb::kwargs& given) {
  return read_options<TensorOptions>(op, given, Field{"dtype", &TensorOptions::dtype},
                                     Field{"device", &TensorOptions::device},
                                     Field{"requires_grad", &TensorOptions::requires_grad});
}

// name(self, other) for a tensor or a number, and where numbers have it too name(other, self).
template <class F>
void bind_operator(nb::class_<Tensor>& tensor, const char* name, F f) {
  tensor.def(
      name, [f](const Tensor& a, const Tensor& b) { return Tensor(f(a, b)); }, nb::is_operator(), Unlocked());
  tensor.def(
      name, [f](const Tensor& a, std::int64_t b) { return Tensor(f(a, Scalar(b))); }, nb::arg().noconvert(),
      nb::is_operator(), Unlocked());
  tensor.def(
      name, [f](const Tensor& a, double b) { return Tensor(f(a, Scalar(b))); }, nb::is_operator(),
      Unlocked());
}
template <class F>
void bind_operator(nb::class_<Tensor>& tensor, const char* name, const char* reversed, F f) {
  bind_operator(tensor, name, f);
  tensor.def(
      reversed, [f](const Tensor& b, std::int64_t a) { return Tensor(f(Scalar(a), b)); },
      nb::arg().noconvert(), nb::is_operator(), Unlocked());
  tensor.def(
      reversed, [f](const Tensor& b, double a) { return Tensor(f(Scalar(a), b)); }, nb::is_operator(),
      Unlocked());
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
          "T", [](const Tensor& t) { return t.transpose(0, 1); }, "A matrix transposed: a view.")
      .def_prop_ro("dtype", &Tensor::dtype)
      .def_prop_ro("device", [](const Tensor& t) { return to_string(t.device()); })
      .def_prop_ro("is_leaf", &Tensor::is_leaf)
      .def_prop_ro("grad_fn", &Tensor::grad_fn_name, "The name of the op that made it, empty for leaves.")
      .def_prop_rw("requires_grad", &Tensor::requires_grad,
                   [](Tensor& t, bool value) { t.set_requires_grad(value); })
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
      .def("__len__", [](const Tensor& t) { return t.size(0); })
      .def("__bool__", [](const Tensor& t) { return bool(t); })
      .def("__float__", [](const Tensor& t) { return t.item<double>(); })
      .def("__int__", [](const Tensor& t) { return t.item<std::int64_t>(); })
      .def("__repr__",
           [](const Tensor& t) {
             std::ostringstream out;
             out << t;
             return out.str();
           })
      .def("__hash__", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.impl()); })
      .def("numel", &Tensor::numel)
      .def("is_contiguous", &Tensor::is_contiguous)
      .def("data_ptr", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw_data()); })
      .def(
          "item", [](const Tensor& t) { return to_python(t.item_scalar()); }, "The one element as a number.")
      .def(
          "to",
          [](const Tensor& t, nb::args where) {
            Tensor result = t;
            for (nb::handle one : where)
              result = nb::isinstance<nb::str>(one) ? result.to(read_as<Device>({"to", "the device"}, one))
                                                    : result.to(read_as<DType>({"to", "the dtype"}, one));
            return result;
          },
          "On a device, in a dtype, or both: x.to(\"cuda\", ct.bf16). Itself where it is so already.")
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
      .def("__getitem__",
           [](const Tensor& t, nb::handle key) {
             const std::vector<TensorIndex> indices = read_indices(key);
             const Released unlocked;
             return t.index(indices);
           })
      .def("__setitem__",
           [](Tensor& t, nb::handle key, nb::handle value) {
             const std::vector<TensorIndex> indices = read_indices(key);
             if (PyNumber_Check(value.ptr()) && !nb::hasattr(value, "__dlpack__")) {
               t.index_put_(indices, read_as<Scalar>({"index_put_", "the value"}, value));
             } else {
               t.index_put_(indices, read_as<Tensor>({"index_put_", "the value"}, value));
             }
           })
      .def(
          "copy_",
          [](Tensor& t, nb::handle source) {
            return t.copy_(read_as<Tensor>({"copy_", "source"}, source));
          },
          nb::arg("source"))
      .def("fill_",
           [](Tensor& t, nb::handle value) {
             return t.fill_(read_as<Scalar>({"fill_", "value"}, value));
           })
      .def("__neg__", [](const Tensor& t) { return -t; })
      .def("__abs__", [](const Tensor& t) { return t.abs(); })
      .def(
          "__matmul__", [](const Tensor& a, const Tensor& b) { return a.matmul(b); }, nb::is_operator(),
          Unlocked());
  bind_operator(tensor, "__add__", "__radd__", [](const auto& a, const auto& b) { return a + b; });
  bind_operator(tensor, "__sub__", "__rsub__", [](const auto& a, const auto& b) { return a - b; });
  bind_operator(tensor, "__mul__", "__rmul__", [](const auto& a, const auto& b) { return a * b; });
  bind_operator(tensor, "__truediv__", "__rtruediv__", [](const auto& a, const auto& b) { return a / b; });
  bind_operator(tensor, "__pow__", "__rpow__", [](const auto& a, const auto& b) { return pow(a, b); });
  bind_operator(tensor, "__eq__", [](const auto& a, const auto& b) { return eq(a, b); });
  bind_operator(tensor, "__ne__", [](const auto& a, const auto& b) { return ne(a, b); });
  bind_operator(tensor, "__lt__", [](const auto& a, const auto& b) { return a < b; });
  bind_operator(tensor, "__le__", [](const auto& a, const auto& b) { return a <= b; });
  bind_operator(tensor, "__gt__", [](const auto& a, const auto& b) { return a > b; });
  bind_operator(tensor, "__ge__", [](const auto& a, const auto& b) { return a >= b; });

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
