#include "bindings_internal.h"

// Modules. A layer is a line: its kind, what its constructor takes, and its options struct, whose own defaults hold.
// Modules of a program's own, Sequential and ModuleList are Python (cotangent/nn.py) on the Module that is bound here.

namespace ct::python {
namespace {

using nn::Module;

nb::dict by_name(const std::vector<nn::Named<Tensor>>& list) {
  nb::dict result;
  for (const auto& [name, tensor] : list) result[nb::cast(name)] = nb::cast(tensor);
  return result;
}

void bind_module(nb::module_& m) {
  nb::class_<Module>(m, "Module", nb::dynamic_attr(), nb::is_weak_referenceable(),
                     "A part of a network: parameters, buffers and modules, each with a name.")
      .def(nb::init<>())
      .def("parameters", &Module::parameters)
      .def("buffers", &Module::buffers)
      .def("named_parameters", [](const Module& module) { return by_name(module.named_parameters()); })
      .def("named_buffers", [](const Module& module) { return by_name(module.named_buffers()); })
      .def("get", &Module::get, nb::arg("path"), "The parameter or buffer of this path (\"in.weight\").")
      .def("num_parameters", &Module::num_parameters, nb::arg("trainable_only") = false)
      .def(
          "state_dict", [](const Module& module) { return to_python(module.state_dict()); },
          "Every parameter and persistent buffer by its path; memory is shared with the module.")
      .def(
          "load_state_dict",
          [](Module& module, const nb::dict& state, bool strict) {
            nn::LoadReport report =
                module.load_state_dict(read_state("load_state_dict", state), {.strict = strict});
            return std::pair(std::move(report.missing), std::move(report.unexpected));
          },
          nb::arg("state"), nb::arg("strict") = true,
          "Copies values in. Gives the names of what is missing and unexpected, which unless `strict` is off "
          "are errors.")
      .def("train", &Module::train, nb::arg("on") = true)
      .def("eval", &Module::eval)
      .def_prop_ro("training", &Module::is_training)
      .def(
          "to",
          [](Module& module, nb::handle where) {
            if (nb::isinstance<nb::str>(where)) {
              module.to(read_as<Device>({"to", "the device"}, where));
            } else {
              module.to(read_as<DType>({"to", "the dtype"}, where));
            }
          },
          "Moves everything to a device, or what is floating to a dtype; optimizers made before stay valid.")
      .def("zero_grad", &Module::zero_grad, nb::arg("set_to_none") = true)
      .def("requires_grad_", &Module::requires_grad_, nb::arg("value") = true)
      .def("_describe", [](const Module& module, const std::string& kind) { return to_string(module, kind); })
      // What cotangent/nn.py builds attributes of modules on: the handles that give a name a new module or tensor.
      .def("_add", [](Module& module, std::string name,
                      const Module& child) { return module.add(std::move(name), child); })
      .def("_assign", [](Module& seat, const Module& child) { seat = child; })
      .def("_parameter",
           [](Module& module, std::string name, const Tensor& t) { module.parameter(std::move(name), t); })
      .def("_buffer",
           [](Module& module, std::string name, const Tensor& t) { module.buffer(std::move(name), t); });
}

}  // namespace

void bind_nn(nb::module_& m) {
  auto nn = m.def_submodule("_nn", "Modules");
  bind_module(nn);
  bind_layers(nn);
}

}  // namespace ct::python
