#include <cmath>

#include "tests/catch.h"
#include "tests/random_programs/program.h"

// Properties of any program, checked without PyTorch: gradients by kernels, by rules and by differences of the loss are
// the same, and second derivatives are differences of the gradients.

using namespace ct;
using random_programs::Program;

namespace {

double inner(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].defined()) total += sum(a[i] * b[i]).item();
  return total;
}

// Weighted sum of gradients, whose gradients are second derivatives.
double weighted(const std::vector<Tensor>& gradients) {
  double total = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const auto g = gradients[i].to_vector<double>();
    for (std::size_t j = 0; j < g.size(); ++j)
      total += g[j] * (static_cast<double>((j * 37 + (1000 + i) * 11) % 17) - 8) / 8;
  }
  return total;
}

}  // namespace

TEST_CASE("random programs: kernels, rules and differences agree", "[random_programs]") {
  int calls = 0, curved = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Program p(seed);
    INFO(p.json());
    CHECK(p.refused == std::vector<std::string>());
    calls += static_cast<int>(p.calls.size()) - 1;
    for (std::size_t i = 0; i < p.leaves.size(); ++i) {
      REQUIRE(p.gradients[i].defined() == p.by_rules[i].defined());
      if (p.gradients[i].defined()) CHECK(allclose(p.gradients[i], p.by_rules[i], 1e-9, 1e-9));
    }
    constexpr double kStep = 1e-6;
    const Program up = p.again(kStep), down = p.again(-kStep);
    const double slope = inner(p.gradients, p.directions), first = (up.loss - down.loss) / (2 * kStep);
    CHECK(std::abs(first - slope) < 1e-5 * (1 + std::abs(slope) + std::abs(p.loss)));
    const double bend = inner(p.seconds, p.directions);
    const double second = (weighted(up.gradients) - weighted(down.gradients)) / (2 * kStep);
    CHECK(std::abs(second - bend) < 1e-4 * (1 + std::abs(bend) + std::abs(slope)));
    curved += bend != 0;
  }
  CHECK(calls > 250);
  CHECK(curved > 25);
}

TEST_CASE("a random program is the same each time it is made", "[random_programs]") {
  CHECK(Program(7).json() == Program(7).json());
  CHECK(Program(7).again(0).loss == Program(7).loss);
  CHECK(Program(7).json() != Program(8).json());
}
