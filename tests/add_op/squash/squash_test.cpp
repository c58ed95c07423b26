#include <cotangent/cotangent.h>

#include "tests/catch.h"

TEST_CASE("squash by hand", "[squash]") {
  ct::Tensor x = ct::from_vector<double>({-3, 0, 1}, {3});
  x.set_requires_grad();
  const ct::Tensor y = ct::squash(x);
  CHECK(y.to_vector<double>() == std::vector<double>{-0.75, 0, 0.5});
  y.sum().backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0.0625, 1, 0.25});
}
