#include <cotangent/ops/attention/attention.h>

#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/ops/creation.h>

#include "tests/catch.h"

namespace {

using namespace ct;

}  // namespace

TEST_CASE("attention of one key is its value", "[attention]") {
  const Tensor q = randn({2, 3, 4, 16}), k = randn({2, 3, 1, 16}), v = randn({2, 3, 1, 16});
  const std::vector<double> y = scaled_dot_product_attention(q, k, v).to_vector<double>();
  const std::vector<double> want = v.expand({2, 3, 4, 16}).to_vector<double>();
  REQUIRE(y == want);
}
