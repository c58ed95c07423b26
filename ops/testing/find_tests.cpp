#include <cotangent/ops/testing/conformance.h>
#include <cotangent/ops/testing/samples.h>

// Table of the tests of all of this library's ops. In a library of its own, Cotangent::samples.

namespace ct {

const OpTests* find_tests(std::string_view op) {
  for (const std::span<const OpTests>* table : detail::builtin_tests())
    for (const OpTests& tests : *table)
      if (op == tests.op) return &tests;
  return nullptr;
}

ConformanceReport check_conformance(const OpDef& op, const ConformanceOptions& options) {
  const OpTests* tests = find_tests(op.name);
  return check_conformance(op, tests ? *tests : OpTests{op.name}, options);
}

}  // namespace ct
