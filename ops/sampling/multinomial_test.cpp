#include <cotangent/cotangent.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {
using I = std::vector<std::int64_t>;
using testing::ids;
}  // namespace

TEST_CASE("multinomial draws in proportion to the weights", "[multinomial]") {
  Generator generator(3);
  const Tensor w = tensor({2.f, 0.f, 1.f, 5.f});
  const std::int64_t n = 80000;
  std::array<double, 4> count{};
  for (const std::int64_t id : ids(multinomial(w, n, true, generator)))
    count[static_cast<std::size_t>(id)] += 1;
  CHECK(count[1] == 0);
  // Within five standard deviations.
  for (const auto& [id, p] : {std::pair{0, 0.25}, {2, 0.125}, {3, 0.625}})
    CHECK(std::abs(count[static_cast<std::size_t>(id)] - n * p) < 5 * std::sqrt(n * p * (1 - p)));
}

TEST_CASE("multinomial without replacement draws each position once", "[multinomial]") {
  Generator generator(4);
  const Tensor w = tensor({1.f, 0.f, 3.f, 2.f});
  std::array<double, 4> first{};
  const int n = 20000;
  for (const Tensor& row : multinomial(w.expand({n, 4}), 3, false, generator).unbind()) {
    const I got = ids(row);
    REQUIRE(std::set<std::int64_t>(got.begin(), got.end()) == std::set<std::int64_t>{0, 2, 3});
    first[static_cast<std::size_t>(got[0])] += 1;
  }
  for (const auto& [id, p] : {std::pair{0, 1 / 6.0}, {2, 0.5}, {3, 1 / 3.0}})
    CHECK(std::abs(first[static_cast<std::size_t>(id)] - n * p) < 5 * std::sqrt(n * p * (1 - p)));
}

TEST_CASE("multinomial depends on the seed, and on the scale of the weights not at all", "[multinomial]") {
  const Tensor w = rand({5, 100});
  const auto draws = [&](const Tensor& weights, std::uint64_t seed) {
    Generator generator(seed);
    return ids(multinomial(weights, 20, true, generator));
  };
  CHECK(draws(w, 1) == draws(w, 1));
  CHECK(draws(w, 1) != draws(w, 2));
  CHECK(draws(w * 1024.0, 1) == draws(w, 1));
  CHECK(draws(w.to(f64), 1) == draws(w, 1));
  Generator generator(1);
  const I one = ids(multinomial(w, 20, true, generator)), two = ids(multinomial(w, 20, true, generator));
  CHECK(one != two);
  CHECK_FALSE(multinomial(w.clone().set_requires_grad(), 1).requires_grad());
}

TEST_CASE("multinomial refuses what can't be drawn", "[multinomial]") {
  // In f64 the CPU's kernel is the plain one.
  const DType dtype = GENERATE(f32, f64);
  const auto row = [&](float a, float b) { return tensor({a, b}).to(dtype); };
  CHECK_THROWS_WITH(multinomial(row(1.f, -1.f), 1),
                    "[multinomial] weight 1 of row 0 is -1; weights must be finite and not negative");
  CHECK_THROWS_WITH(multinomial(row(0.f, 0.f), 1),
                    "[multinomial] all weights of row 0 are 0; at least one must be positive");
  CHECK_THROWS_WITH(
      multinomial(row(0.f, 1.f), 2),
      "[multinomial] row 0 has 1 positive weights; 2 are to be drawn without replacement: ask for "
      "fewer, or draw with replacement");
  CHECK_THROWS_AS(multinomial(row(NAN, 1.f), 1), ValueError);
  CHECK_THROWS_AS(multinomial(row(INFINITY, 1.f), 1), ValueError);
  CHECK_THROWS_AS(multinomial(row(1.f, 1.f), 3), ValueError);
  CHECK_THROWS_AS(multinomial(row(1.f, 1.f), INT64_MAX / 2 + 1, true), OutOfMemoryError);
}

TEST_CASE("multinomial that fails draws nothing", "[multinomial]") {
  Generator generator(1);
  CHECK_THROWS_AS(multinomial(ones({2, 3, 4}), 1, false, generator), ShapeError);
  CHECK_THROWS_AS(multinomial(tensor({1.f, -1.f}), 1, false, generator), ValueError);
  CHECK(generator.offset() == 0);
  multinomial(tensor({1.f, 1.f}), 1, false, generator);
  CHECK(generator.offset() == 1);
}

TEST_CASE("multinomial draws the same on the GPU", "[multinomial][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const std::int64_t n : {1, 7, 513, 50257}) {
      const Tensor w = rand({9, n}, {.dtype = dtype}) + 0.01;
      for (const bool replacement : {true, false}) {
        const auto draws = [&](Device device) {
          Generator generator(11);
          return ids(multinomial(w.to(device), std::min<std::int64_t>(n, 33), replacement, generator));
        };
        CHECK(draws(cuda(0)) == draws(cpu));
      }
    }
  const Tensor bad = tensor({{1.f, -1.f}, {0.f, 0.f}, {0.f, 1.f}}).to(cuda(0));
  CHECK(ids(multinomial(bad, 2)) == I{-1, -1, -1, -1, 1, -1});
}
