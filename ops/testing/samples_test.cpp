#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <cotangent/core/op/registry.h>
#include <cotangent/ops/testing/samples.h>

#include "tests/catch.h"

TEST_CASE("sample values are reproducible, apart from one another and from 0", "[samples]") {
  ct::SampleMaker make(1), same(1), other(2);
  const ct::Tensor x = make.normal({40, 50});
  std::vector<double> v(x.data<double>(), x.data<double>() + x.numel());
  CHECK(x.dtype() == ct::f64);
  const ct::Tensor y = same.normal({40, 50});
  CHECK(std::equal(v.begin(), v.end(), y.data<double>()));
  CHECK(!std::equal(v.begin(), v.end(), other.normal({40, 50}).data<double>()));
  double sum = 0, squares = 0;
  for (const double a : v) {
    CHECK(std::abs(a) >= 0.05);
    CHECK(std::abs(a) <= 2.5);
    sum += a;
    squares += a * a;
  }
  CHECK(std::abs(sum / 2000) < 0.09);
  CHECK(squares / 2000 == Approx(0.97).margin(0.12));
  std::sort(v.begin(), v.end());
  for (std::size_t i = 1; i < v.size(); ++i) REQUIRE(v[i] - v[i - 1] >= 2e-4);
}

TEST_CASE("sample indices, masks and values", "[samples]") {
  ct::SampleMaker make(3);
  const ct::Tensor index = make.index({1000}, 7);
  int seen[7] = {};
  for (int i = 0; i < 1000; ++i) ++seen[index.data<std::int64_t>()[i]];
  for (const int n : seen) CHECK(n > 90);
  const ct::Tensor mask = make.mask({1000});
  const auto ones = std::count(mask.data<bool>(), mask.data<bool>() + 1000, true);
  CHECK(ones > 430);
  CHECK(ones < 570);
  const ct::Tensor u = make.uniform({1000}, -2, 3);
  const auto [low, high] = std::minmax_element(u.data<double>(), u.data<double>() + 1000);
  CHECK(*low >= -2);
  CHECK(*low < -1.9);
  CHECK(*high < 3);
  CHECK(*high > 2.9);
  CHECK(make.values({2, 1}, {5, 6}).data<double>()[1] == 6);
  CHECK_THROWS_AS(make.values({2}, {1}), ct::ShapeError);
  CHECK(make.normal({}).numel() == 1);
  CHECK(make.normal({0, 2}).numel() == 0);
}

TEST_CASE("every op of the library has tests, and every tests record an op", "[samples]") {
  std::set<std::string> tested;
  for (const auto* table : ct::detail::builtin_tests())
    for (const ct::OpTests& tests : *table) {
      INFO(tests.op);
      CHECK(tests.samples != nullptr);
      CHECK(ct::find_op(tests.op) != nullptr);
      CHECK(ct::find_tests(tests.op) == &tests);  // the only one of that name
      tested.insert(tests.op);
    }
  for (const ct::OpDef* op : ct::registry()) CHECK(tested.count(op->name) == 1);
  CHECK(ct::find_tests("no_such_op") == nullptr);
}
