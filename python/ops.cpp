#include "call_internal.h"

#include <array>
#include <cstring>

#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/dispatch.h>

// Every op of the registry as an object that says what it takes, and can be called. cotangent/ops.py makes functions of
// them.

namespace ct::python {
namespace {

// Names in the order of AttrType.
constexpr const char* kTypeNames[] = {"bool",   "int",  "int",   "int",    "int",    "float",
                                      "number", "dims", "dtype", "device", "choice", "draw"};
const char* type_name(const AttrDef& attr) { return kTypeNames[static_cast<std::size_t>(attr.type)]; }

// One attribute into the bytes that the op's kernels read as a struct: little-endian, as all that this library is built for.
void write_attribute(const OpDef& op, const AttrDef& attr, nb::handle value, std::byte* to) {
  const Argument argument{op.name, attr.name};
  const auto put = [&](const auto& made) {
    std::memcpy(to, &made, std::min(sizeof made, std::size_t{attr.size}));
  };
  switch (attr.type) {
    case AttrType::flag: return put(read_as<bool>(argument, value));
    case AttrType::int32:
    case AttrType::int64:
    case AttrType::uint32:
    case AttrType::uint64: {
      const auto wide = read_as<std::int64_t>(argument, value);
      const bool fits = attr.type == AttrType::int32    ? std::in_range<std::int32_t>(wide)
                        : attr.type == AttrType::uint32 ? std::in_range<std::uint32_t>(wide)
                                                        : attr.type == AttrType::int64 || wide >= 0;
      CT_CHECK(fits, ValueError, op.name, attr.name, " is ", wide, "; it has ", 8 * attr.size, " bits here");
      return put(wide);
    }
    case AttrType::real: return put(read_as<double>(argument, value));
    case AttrType::number: return put(read_as<Scalar>(argument, value));
    case AttrType::dims: return put(read_as<Dims>(argument, value));
    case AttrType::dtype: return put(read_as<DType>(argument, value));
    case AttrType::device: return put(read_as<Device>(argument, value));
    case AttrType::draw: {  // None: the default generator's next
      if (value.is_none()) return put(default_generator().reserve());
      const auto [seed, offset] = nb::cast<std::pair<std::uint64_t, std::uint64_t>>(value);
      return put(GeneratorState{seed, offset});
    }
    case AttrType::choice: {
      std::uint64_t index = 0;
      read_choice(argument, value, attr.choices, index);
      return put(index);
    }
  }
}

nb::object call_op(const OpDef& op, const nb::list& given, const nb::dict& attributes) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < given.size(); ++i) names.push_back(input_name(op, i));
  std::vector<Slot> slots;
  std::vector<PyObject*> values;
  for (const std::string& name : names) slots.push_back({name.c_str(), Kind::tensor, false});
  for (nb::handle one : given) values.push_back(one.ptr());
  const Values read(op.name, slots, values.data());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < slots.size(); ++i) inputs.push_back(read.tensor(i));
  AnyAttrs attrs;
  attrs.bytes.fill(std::byte{0});
  for (const AttrDef& attr : op.attributes) {
    CT_CHECK(attributes.contains(attr.name), ValueError, op.name, "the attribute ", attr.name,
             " is missing; it takes ", type_name(attr), attr.type == AttrType::choice ? ": " : "",
             attr.choices);
    write_attribute(op, attr, attributes[attr.name], attrs.bytes.data() + attr.offset);
    attrs.size = std::max(attrs.size, std::size_t{attr.offset} + attr.size);
  }
  std::vector<TensorRef> refs;
  for (const Tensor& t : inputs) refs.push_back(&t);
  std::array<Tensor, kMaxOutputs> outputs;
  unlocked([&] { dispatch(op, refs, attrs.view(), outputs); });
  nb::list result;
  for (Tensor& t : outputs)
    if (t.defined()) result.append(std::move(t));
  return result;
}

}  // namespace

void bind_ops(nb::module_& m) {
  const nb::handle dict(reinterpret_cast<PyObject*>(&PyDict_Type));
  nb::class_<OpDef>(m, "Op", "An op of the registry: its records, and a call of it.")
      .def_ro("name", &OpDef::name)
      .def_ro("formula", &OpDef::formula)
      .def_ro("differentiable", &OpDef::differentiable)
      .def_prop_ro("inputs",
                   [dict](const OpDef& op) {
                     nb::list list;
                     for (const InputDef& in : op.inputs)
                       list.append(dict(nb::arg("name") = in.name, nb::arg("optional") = in.optional,
                                        nb::arg("rest") = in.rest));
                     return list;
                   })
      .def_prop_ro("attributes",
                   [dict](const OpDef& op) {
                     nb::list list;
                     for (const AttrDef& attr : op.attributes)
                       list.append(dict(nb::arg("name") = attr.name, nb::arg("type") = type_name(attr),
                                        nb::arg("choices") = attr.choices));
                     return list;
                   })
      .def("__call__", &call_op, nb::arg("inputs"), nb::arg("attributes"),
           "Runs it: tensors in the order of `inputs` (None where one is left out), all attributes by name. "
           "A list of its outputs.")
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
