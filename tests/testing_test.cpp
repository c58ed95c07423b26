#include <cotangent/cotangent.h>

#include <cmath>

#include "tests/catch.h"
#include "tests/nn_testing.h"
#include "tests/op_testing.h"

using namespace ct;

TEST_CASE("what measures differences in tests sees every NaN", "[testing]") {
  const Tensor zero = zeros({3});
  for (const std::vector<float>& values : {std::vector<float>{NAN, 0, 1}, {0, NAN, 0}, {1, 0, NAN}}) {
    const Tensor bad = from_vector(values);
    CHECK(std::isnan(testing::largest_difference(bad, zero)));
    CHECK(std::isnan(testing::largest_difference(zero, bad)));
    CHECK(std::isnan(testing::largest_difference(bad, bad)));
    CHECK(std::isnan(testing::worst(bad, zero, 1)));
  }
  CHECK(testing::largest_difference(from_vector(std::vector<float>{1, -4, 2}), zero) == 4);
  CHECK(testing::worst(from_vector(std::vector<float>{1, -4, 2}), zero, 2) == 2);
}
