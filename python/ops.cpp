#include "bindings_internal.h"

#include <array>
#include <cstring>

#include <cotangent/core/op_def.h>
#include <cotangent/ops/dispatch.h>

// Every op of the registry as an object that says what it takes, and can be called. cotangent/ops.py makes functions of
// them.

namespace ct::python {
namespace {

const char* type_name(AttrType type) {
  switch (type) {
    case AttrType::flag: return "bool";
    case AttrType::int32:
    case AttrType::int64:
    case AttrType::uint32:
    case AttrType::uint64: return "int";
    case AttrType::real: return "float";
    case AttrType::number: return "number";
    case AttrType::dims: return "dims";
    case AttrType::dtype: return "dtype";
    case AttrType::device: return "device";
    case AttrType::choice: return "choice";
    case AttrType::draw: return "draw";
  }
  return "";
}

template <class T>
void put(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
void put_integer(const Argument& argument, nb::handle value, std::byte* to) {
  const auto wide = read_as<std::int64_t>(argument, value);
  CT_CHECK(std::in_range<T>(wide), ValueError, argument.op, argument.name, " is ", wide, "; it has ",
           8 * sizeof(T), " bits here");
  put(to, static_cast<T>(wide));
}

// One attribute into the bytes that the op's kernels read as a struct.
void write_attribute(const OpDef& op, const AttrDef& attr, nb::handle value, std::byte* to) {
  const Argument argument{op.name, attr.name};
  switch (attr.type) {
    case AttrType::flag: return put(to, read_as<bool>(argument, value));
    case AttrType::int32: return put_integer<std::int32_t>(argument, value, to);
    case AttrType::int64: return put_integer<std::int64_t>(argument, value, to);
    case AttrType::uint32: return put_integer<std::uint32_t>(argument, value, to);
    case AttrType::uint64: return put_integer<std::uint64_t>(argument, value, to);
    case AttrType::real: return put(to, read_as<double>(argument, value));
    case AttrType::number: return put(to, read_as<Scalar>(argument, value));
    case AttrType::dims: return put(to, read_as<Dims>(argument, value));
    case AttrType::dtype: return put(to, read_as<DType>(argument, value));
    case AttrType::device: return put(to, read_as<Device>(argument, value));
    case AttrType::draw: {  // None: the default generator's next
      if (value.is_none()) return put(to, default_generator().reserve());
      const auto [seed, offset] = nb::cast<std::pair<std::uint64_t, std::uint64_t>>(value);
      return put(to, GeneratorState{seed, offset});
    }
    case AttrType::choice: {
      std::uint64_t index = 0;
      read_choice(argument, value, attr.choices, index);
      std::memcpy(to, &index, attr.size);  // little-endian, as all that this library is built for
      return;
    }
  }
}

// A number beside tensors takes their dtype, as in C++.
Tensor number_beside(const Argument& argument, nb::handle value, const std::vector<Tensor>& others) {
  const auto number = read_as<Scalar>(argument, value);
  for (const Tensor& t : others)
    if (t.defined()) return full({}, number, {.dtype = promote(t.dtype(), number), .device = t.device()});
  return full({}, number);
}

std::vector<Tensor> read_inputs(const OpDef& op, const nb::sequence& given) {
  std::vector<Tensor> inputs(nb::len(given));
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const nb::object value = given[i];
    const bool number = PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr());
    if (number) {
      numbers.push_back(i);
    } else {
      read({op.name, input_name(op, i).c_str()}, value, inputs[i]);
    }
  }
  for (const std::size_t i : numbers)
    inputs[i] = number_beside({op.name, input_name(op, i).c_str()}, given[i], inputs);
  return inputs;
}

nb::object call(const OpDef& op, const nb::sequence& given, const nb::dict& attributes) {
  const std::vector<Tensor> inputs = read_inputs(op, given);
  AnyAttrs attrs;
  attrs.bytes.fill(std::byte{0});
  for (const AttrDef& attr : op.attributes) {
    const nb::str name(attr.name);
    CT_CHECK(attributes.contains(name), ValueError, op.name, "the attribute ", attr.name,
             " is missing; it takes ", type_name(attr.type), attr.type == AttrType::choice ? ": " : "",
             attr.choices);
    write_attribute(op, attr, attributes[name], attrs.bytes.data() + attr.offset);
    attrs.size = std::max(attrs.size, std::size_t{attr.offset} + attr.size);
  }
  std::vector<TensorRef> refs;
  for (const Tensor& t : inputs) refs.push_back(&t);
  std::array<Tensor, kMaxOutputs> outputs;
  {
    const Released unlocked;
    dispatch(op, refs, attrs.view(), outputs);
  }
  nb::list result;
  for (Tensor& t : outputs)
    if (t.defined()) result.append(std::move(t));
  return result;
}

nb::list describe_inputs(const OpDef& op) {
  nb::list list;
  for (const InputDef& in : op.inputs) {
    nb::dict record;
    record["name"] = in.name;
    record["optional"] = in.optional;
    record["rest"] = in.rest;
    record["gradient"] = in.gradient;
    list.append(record);
  }
  return list;
}
nb::list describe_attributes_of(const OpDef& op) {
  nb::list list;
  for (const AttrDef& attr : op.attributes) {
    nb::dict record;
    record["name"] = attr.name;
    record["type"] = type_name(attr.type);
    record["choices"] = attr.choices;
    list.append(record);
  }
  return list;
}

}  // namespace

void bind_ops(nb::module_& m) {
  nb::class_<OpDef>(m, "Op", "An op of the registry: its records, and a call of it.")
      .def_ro("name", &OpDef::name)
      .def_ro("formula", &OpDef::formula)
      .def_ro("differentiable", &OpDef::differentiable)
      .def_prop_ro("inputs", &describe_inputs)
      .def_prop_ro("attributes", &describe_attributes_of)
      .def_prop_ro("outputs",
                   [](const OpDef& op) {
                     nb::list names;
                     for (const OutputDef& out : op.outputs) names.append(out.name);
                     return names;
                   })
      .def("__call__", &call, nb::arg("inputs"), nb::arg("attributes"),
           "Runs it: tensors in the order of `inputs` (None where one is left out), all attributes by name. "
           "A list of its "
           "outputs.")
      .def("__repr__", [](const OpDef& op) { return detail::cat("<op ", op.name, ": ", op.formula, '>'); });
  m.def(
      "registry",
      [] {
        nb::list list;
        for (const OpDef* op : registry()) list.append(nb::cast(op, nb::rv_policy::reference));
        return list;
      },
      "Every op there is, those that loaded libraries have registered last.");
}

}  // namespace ct::python
