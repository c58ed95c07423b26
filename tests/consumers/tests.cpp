// A consumer's tests, of an op of the library too: one target more, the headers of cotangent/ops/testing/.
#include <cstdio>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/testing/conformance.h>
#include <cotangent/ops/testing/gradcheck.h>

int main() {
  ct::SampleMaker make(1);
  const auto square = [](const ct::Tensor& x) { return ct::mul(x, x); };
  if (!ct::gradcheck(square, {make.normal({3})}).ok) return 1;
  const ct::ConformanceReport report = ct::check_conformance(*ct::find_op("mul"), {.devices = {ct::cpu}});
  for (const std::string& failure : report.failures) std::printf("%s\n", failure.c_str());
  return report.ok() ? 0 : 1;
}
