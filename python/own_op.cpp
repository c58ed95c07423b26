#include "bindings_internal.h"

#include <cotangent/nn/plugin/load_op.h>
#include <cotangent/ops/testing/conformance.h>
#include <cotangent/ops/testing/gradcheck.h>

// Ops of a program's own, built and loaded while it runs, and what holds them, and all others, to the truth.

namespace ct::python {
namespace {

std::pair<int, std::vector<std::string>> check(const OpDef& op, const LoadedOp* loaded,
                                               const std::vector<std::string>& devices) {
  ConformanceOptions options;
  for (const std::string& one : devices) options.devices.push_back(parse_device(one));
  const bool own = loaded != nullptr && loaded->tests != nullptr;
  const ConformanceReport report =
      own ? check_conformance(op, *loaded->tests, options) : check_conformance(op, options);
  return {report.checks, report.failures};
}

}  // namespace

void bind_own_op(nb::module_& m) {
  nb::class_<LoadedOp>(m, "LoadedOp", "An op that load_op() has loaded.")
      .def_prop_ro(
          "op", [](const LoadedOp& loaded) { return loaded.op; }, nb::rv_policy::reference)
      .def_ro("library", &LoadedOp::library, "The shared object that it is in.")
      .def_ro("built", &LoadedOp::built, "It was compiled by this call, and not found in the cache.");
  m.def(
      "_load_op",
      [](const std::string& path, const std::string& compiler, const std::string& flags,
         const std::string& cache, const std::string& include) {
        return load_op(path, {compiler, flags, cache, include});
      },
      Unlocked());
  m.def("_check", &check, nb::arg("op"), nb::arg("loaded").none(), nb::arg("devices"), Unlocked());
  m.def(
      "_gradcheck",
      [](const GradcheckFunction& f, const std::vector<Tensor>& inputs, bool twice, double eps, double atol,
         double rtol) {
        const GradcheckOptions options{.eps = eps, .atol = atol, .rtol = rtol, .all_devices = false};
        const auto result = twice ? gradgradcheck(f, inputs, options) : gradcheck(f, inputs, options);
        return result.ok ? std::string() : result.message;
      },
      Unlocked());
}

}  // namespace ct::python
