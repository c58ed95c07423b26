#include "bindings_internal.h"

// Modules. A layer is a line: its kind, what its constructor takes, and its options struct, whose own defaults hold.
// Modules of a program's own, Sequential and ModuleList are Python (cotangent/nn.py) on the Module that is bound here.

namespace ct::python {
namespace {

using nn::Module;

// A member as Python sees it: its kind, its tensor, and whether it is saved.
nb::tuple describe(const nn::Member& member) {
  static constexpr const char* kKinds[] = {"parameter", "buffer", "module"};
  const nb::object tensor = member.tensor.defined() ? nb::cast(member.tensor) : nb::none();
  return nb::make_tuple(kKinds[static_cast<int>(member.kind)], tensor, member.persistent);
}

// A parameter keeps the flag that Python gave it.
void set_tensor(Module& module, const std::string& name, const std::string& kind, std::optional<Tensor> given,
                bool persistent) {
  Tensor tensor = given.value_or(Tensor());
  const bool frozen = kind == "parameter" && tensor.defined() && !tensor.requires_grad();
  if (module.member(name)) {
    module.set_tensor(name, tensor);
  } else if (kind == "buffer") {
    module.buffer(name, tensor, {.persistent = persistent});
  } else {
    module.parameter(name, tensor);
  }
  if (frozen) tensor.set_requires_grad(false);
}

// to(device), to(dtype), to(tensor), in any order.
void move_to(Module& module, const nb::args& where) {
  To to;
  for (nb::handle one : where) read({"to", "where it goes"}, one, to);
  const Released unlocked;
  if (to.device && to.dtype) return module.to(*to.device, *to.dtype);
  if (to.device) module.to(*to.device);
  if (to.dtype) module.to(*to.dtype);
}

Module& ready(nb::handle module) {
  CT_CHECK(nb::inst_ready(module), Error, nb::cast<std::string>(module.type().attr("__name__")).c_str(),
           "the module is used before its __init__() has called super().__init__()");
  return nb::cast<Module&>(module);
}

void bind_module(nb::module_& m) {
  nb::class_<Module>(m, "Module", nb::dynamic_attr(), nb::is_weak_referenceable(),
                     "A part of a network: parameters, buffers and modules, each with a name.")
      .def(nb::init<>())
      .def(
          "state_dict", [](nb::handle module) { return to_python(ready(module).state_dict()); },
          "Every parameter and persistent buffer by its path; memory is shared with the module.")
      .def_prop_rw(
          "training", [](nb::handle module) { return ready(module).is_training(); },
          [](nb::handle module, bool on) { ready(module).set_training(on); })
      // Members from which cotangent/nn.py builds attributes of modules.
      .def("_members",
           [](nb::handle module) {
             nb::dict found;
             for (const nn::Member& one : ready(module).members()) found[one.name.c_str()] = describe(one);
             return found;
           })
      .def("_member",
           [](nb::handle module, const std::string& name) -> nb::object {
             const auto found =
                 nb::inst_ready(module) ? nb::cast<Module&>(module).member(name) : std::nullopt;
             return found ? nb::object(describe(*found)) : nb::none();
           })
      .def("_set_tensor", &set_tensor, nb::arg("name"), nb::arg("kind"), nb::arg("tensor").none(),
           nb::arg("persistent") = true)
      .def("_set_child",
           [](Module& module, const std::string& name, nb::handle given) {
             Module& child = ready(given);
             if (child.kind().empty())
               child.describe_as(nb::cast<std::string>(given.type().attr("__name__")));
             module.set_child(name, child);
           })
      .def("_load",
           [](Module& module, const nb::dict& state, bool strict) {
             auto report = module.load_state_dict(read_as<StateDict>({"load_state_dict", "the state"}, state),
                                                  {.strict = strict});
             return std::pair(std::move(report.missing), std::move(report.unexpected));
           })
      .def("_to", &move_to);
  m.def("_is_ready", [](nb::handle module) { return nb::inst_ready(module); });
  m.def(
      "_as",
      [](nb::handle type, const Tensor& t) {
        nb::object made = nb::inst_alloc(type);
        new (nb::inst_ptr<Tensor>(made)) Tensor(t);
        nb::inst_mark_ready(made);
        remember(made);
        return made;
      },
      "The tensor as an object of a class derived from Tensor.");
  m.def(
      "_without_draws",
      [](nb::handle f) {
        const nn::init::Skip skip;
        return nb::object(f());
      },
      "f(), in which initial values are not drawn.");
}

}  // namespace

void bind_nn(nb::module_& m) {
  auto nn = m.def_submodule("_nn", "Modules");
  bind_module(nn);
  bind_layers(nn);
}

}  // namespace ct::python
