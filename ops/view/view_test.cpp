#include <cotangent/ops/creation.h>
#include <cotangent/ops/view/view.h>

#include "tests/catch.h"

using ct::Shape;
using ct::Strides;
using ct::Tensor;

TEST_CASE("a view shares its memory", "[view]") {
  Tensor x = ct::arange(6);
  Tensor y = x.view({2, 3});
  y.select(0, 1).fill_(9);
  CHECK(x.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 9, 9, 9});
}
