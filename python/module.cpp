#include "bindings_internal.h"

#include <cotangent/core/version.h>

// The module itself: errors, and the settings of a process or thread.

namespace ct::python {
namespace {

// Each error is also the one of Python's that a caller expects of its kind.
template <class E>
void bind_error(nb::module_& m, const char* name, PyObject* alike) {
  nb::exception<E>(m, name, nb::make_tuple(m.attr("Error"), nb::borrow(alike)));
}

void bind_errors(nb::module_& m) {
  nb::exception<Error>(m, "Error", PyExc_RuntimeError);
  bind_error<ShapeError>(m, "ShapeError", PyExc_ValueError);
  bind_error<DTypeError>(m, "DTypeError", PyExc_TypeError);
  nb::exception<DeviceError>(m, "DeviceError", m.attr("Error"));
  bind_error<IndexError>(m, "IndexError", PyExc_IndexError);
  bind_error<ValueError>(m, "ValueError", PyExc_ValueError);
  nb::exception<AutogradError>(m, "AutogradError", m.attr("Error"));
  bind_error<IoError>(m, "IoError", PyExc_OSError);
  bind_error<OutOfMemoryError>(m, "OutOfMemoryError", PyExc_MemoryError);
  nb::exception<CudaError>(m, "CudaError", m.attr("Error"));
}

}  // namespace
}  // namespace ct::python

NB_MODULE(_core, m) {
  namespace nb = nanobind;
  using namespace ct::python;
  m.doc() = "Cotangent's C++ side: what the package cotangent stands on.";
  bind_errors(m);
  bind_tensor(m);
  bind_exchange(m);
  bind_ops(m);
  bind_nn(m);
  bind_training(m);
  bind_function(m);
  bind_own_op(m);
  bind_models(m);
  m.def("version", &ct::version);
  m.def("manual_seed", &ct::manual_seed, nb::arg("seed"), "Seeds the default generator.");
  m.def("num_threads", &ct::num_threads);
  m.def("set_num_threads", &ct::set_num_threads, nb::arg("count"));
  m.def("cuda_is_available", &ct::cuda_is_available);
  m.def(
      "synchronize", [](const std::string& device) { ct::synchronize(ct::parse_device(device)); },
      nb::arg("device") = "auto", Unlocked(), "Waits until everything queued on the device is done.");
  using AutocastScope = Scope<ct::Autocast, ct::DType>;
  AutocastScope::bind(m, "autocast",
                      "with autocast(ct.bf16): ops pick the dtype that suits them (docs/autocast.md).")
      .def(nb::init<ct::DType>(), nb::arg("dtype"));
  m.def("grad_enabled", &ct::grad_enabled);
  m.def(
      "set_grad_enabled", [](bool on) { return std::exchange(ct::detail::grad_mode_state().enabled, on); },
      nb::arg("on"), "Whether ops of this thread are recorded; gives what was before.");
  bind_extras(m);
}
