#include "call_internal.h"

#include <cotangent/core/base/version.h>

// The module itself, and the settings of a process or thread.

namespace ct::python {
namespace {

void bind_all(nb::module_ m) {
  m.doc() = "Cotangent's C++ side: what the package cotangent stands on.";
  for (Binder* const bind : {&bind_errors, &bind_tensor, &bind_hooks, &bind_exchange, &bind_plain, &bind_ops,
                             &bind_nn, &bind_optim, &bind_training, &bind_function, &bind_own_op,
                             &bind_functions, &bind_models, &bind_extras, &bind_members})
    bind(m);
  m.def(
      "synchronize", [](const std::string& device) { ct::synchronize(ct::parse_device(device)); },
      nb::arg("device") = "auto", Unlocked(), "Waits until everything queued on the device is done.");
  m.def(
      "set_grad_enabled", [](bool on) { return std::exchange(ct::detail::grad_mode_state().enabled, on); },
      nb::arg("on"), "Whether ops of this thread are recorded; gives what was before.");
  m.def("_ours", [](const std::string& theirs) {
    std::vector<std::string> all;
    each_alias(theirs, [&](std::string_view ours) { return all.emplace_back(ours), false; });
    return all;
  });
  start_process();
}

// C++ has one state for a process: there is one module, however often it is imported, and for the main interpreter
// alone.
enum class Import { never, failed, done } import_state = Import::never;
PyObject* the_module = nullptr;

PyObject* refuse_import(const char* why) {
  PyErr_SetString(PyExc_ImportError, why);
  return nullptr;
}
PyObject* create_module(PyObject* spec, PyModuleDef*) {
  if (PyInterpreterState_Get() != PyInterpreterState_Main())
    return refuse_import(
        "[cotangent] this is a subinterpreter; import it in the main interpreter, or use processes");
  if (the_module == nullptr) {
    if (import_state != Import::never) return refuse_import("[cotangent] the interpreter is closing");
    const nb::object name = nb::steal(PyObject_GetAttrString(spec, "name"));
    if (!name.is_valid()) return nullptr;
    the_module = PyModule_NewObject(name.ptr());
  }
  Py_XINCREF(the_module);
  return the_module;
}
int execute_module(PyObject* made) {
  if (import_state == Import::failed) return refuse_import("[cotangent] it failed to load before"), -1;
  try {
    const auto m = nb::borrow<nb::module_>(made);
    if (import_state == Import::done) {  // its parts may have left sys.modules with it
      const nb::object loaded = nb::module_::import_("sys").attr("modules");
      for (nb::handle part : nb::borrow<nb::dict>(m.attr("__dict__")).values())
        if (PyModule_Check(part.ptr())) loaded[part.attr("__name__")] = part;
      return 0;
    }
    import_state = Import::failed;
    if (!nb::register_module(m)) return -1;
    bind_all(m);
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { Py_CLEAR(the_module); }));
    import_state = Import::done;
    return 0;
  } catch (nb::python_error& error) { error.restore(); } catch (const std::exception& error) {
    refuse_import(error.what());
  }
  return -1;
}

PyModuleDef_Slot module_slots[] = {{Py_mod_create, reinterpret_cast<void*>(&create_module)},
                                   {Py_mod_exec, reinterpret_cast<void*>(&execute_module)},
                                   {0, nullptr}};
PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "_core", nullptr, 0,      nullptr,
                                 module_slots,          nullptr, nullptr, nullptr};

}  // namespace
}  // namespace ct::python

extern "C" NB_EXPORT PyObject* PyInit__core() { return PyModuleDef_Init(&ct::python::module_definition); }
