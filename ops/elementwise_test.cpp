#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <cotangent/core/parallel.h>
#include <cotangent/ops/binary/binary.h>
#include <cotangent/ops/creation.h>
#include <cotangent/ops/unary/unary.h>

#include "tests/catch.h"

// The mechanism under unary, binary and where: numerics of the vector functions, layouts, dtypes, threads.

namespace {

using ct::Tensor;

// Every 1021st float between two magnitudes, of both signs (or the positive ones).
std::vector<float> sweep(float low, float high, bool negative) {
  std::vector<float> values;
  for (auto bits = std::bit_cast<std::uint32_t>(low); bits <= std::bit_cast<std::uint32_t>(high);
       bits += 1021) {
    values.push_back(std::bit_cast<float>(bits));
    if (negative) values.push_back(-values.back());
  }
  return values;
}

// The largest error of `f` in units of the last place of the exact result.
struct Worst {
  double ulp = 0;
  float at = 0;
};
Worst worst_error(Tensor (*f)(const Tensor&), double (*exact)(double), const std::vector<float>& values) {
  const std::vector<float> got = f(ct::from_vector(values)).to_vector<float>();
  Worst worst;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double want = exact(values[i]);
    const float nearest = static_cast<float>(want);
    if (got[i] == nearest || (std::isnan(got[i]) && std::isnan(want))) continue;
    int exponent = 0;
    std::frexp(want, &exponent);
    const double step = std::ldexp(1.0, std::max(exponent, -125) - 24);
    const double ulp = std::fabs(got[i] - want) / step;
    if (!(ulp <= worst.ulp)) worst = {ulp, values[i]};
  }
  return worst;
}

}  // namespace

TEST_CASE("vector functions in f32 are within two units of the last place", "[elementwise]") {
  const auto check = [](const char* name, Tensor (*f)(const Tensor&), double (*exact)(double),
                        const std::vector<float>& values, double limit) {
    const Worst worst = worst_error(f, exact, values);
    INFO(name << ": " << worst.ulp << " ulp at " << worst.at << " of " << values.size() << " values");
    CHECK(worst.ulp <= limit);
    if (std::getenv("CT_TEST_VERBOSE")) WARN(name << ": " << worst.ulp << " ulp at " << worst.at);
  };
  const float tiny = std::numeric_limits<float>::denorm_min(), huge = std::numeric_limits<float>::max();
  check("exp", ct::exp, std::exp, sweep(tiny, huge, true), 1.1);
  check("log", ct::log, std::log, sweep(tiny, huge, true), 1.0);
  check("sqrt", ct::sqrt, std::sqrt, sweep(tiny, huge, true), 0.51);
  check("sin", ct::sin, std::sin, sweep(tiny, huge, true), 1.6);
  check("cos", ct::cos, std::cos, sweep(tiny, huge, true), 1.6);
  check("tanh", ct::tanh, std::tanh, sweep(tiny, huge, true), 1.3);
  check("erf", ct::erf, std::erf, sweep(tiny, huge, true), 1.1);
  check(
      "sigmoid", [](const Tensor& x) { return ct::sigmoid(x); },
      [](double x) { return 1 / (1 + std::exp(-x)); }, sweep(tiny, 80, true), 3);
}
