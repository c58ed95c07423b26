#include <cotangent/cotangent.h>

#include <limits>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {
using I = std::vector<std::int64_t>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using testing::ids;
}  // namespace

TEST_CASE("searchsorted finds where values belong", "[searchsorted]") {
  const Tensor steps = tensor({1., 3., 3., 7.}), v = tensor({{0., 1., 3.}, {4., 7., 9.}});
  CHECK(ids(searchsorted(steps, v)) == I{0, 0, 1, 3, 3, 4});
  CHECK(ids(searchsorted(steps, v, true)) == I{0, 1, 3, 3, 4, 4});
  CHECK(searchsorted(steps, v).shape() == v.shape());
  CHECK(ids(bucketize(v, steps)) == ids(searchsorted(steps, v)));
  CHECK(searchsorted(steps, tensor(3.)).item<int>() == 1);
  const Tensor rows = tensor({{1, 2, 3}, {10, 20, 30}});
  CHECK(ids(searchsorted(rows, tensor({{2, 9}, {2, 25}}))) == I{1, 3, 0, 2});
  CHECK(ids(searchsorted(tensor({1, 2, 3}), tensor({1.5, 2.5}))) == I{1, 2});
  CHECK(ids(searchsorted(tensor({1., kNan}), tensor({kNan, 2.}))) == I{1, 1});
  CHECK(ids(searchsorted(tensor({1., kNan}), tensor({kNan}), true)) == I{2});
}

TEST_CASE("searchsorted refuses what does not fit", "[searchsorted]") {
  CHECK_THROWS_WITH(
      searchsorted(zeros({2, 3}), zeros({3, 4})),
      "[searchsorted] sorted is f32[2, 3], values are f32[3, 4]; they must agree in all axes but "
      "the last, or sorted must have rank 1");
  CHECK_THROWS_AS(searchsorted(zeros({}), zeros({1})), ShapeError);
  CHECK_THROWS_AS(bucketize(zeros({2}), zeros({2, 2})), ShapeError);
}

TEST_CASE("searchsorted on the GPU equals that on the CPU", "[searchsorted][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16, i64, i32, u8}) {
    const Tensor list = sort((randn({3, 1000}) * 40.0 + 100.0).to(dtype)).values;
    const Tensor v = (randn({3, 5000}) * 40.0 + 100.0).to(dtype);
    CHECK(ids(searchsorted(list.to(cuda(0)), v.to(cuda(0)), true).to(cpu)) ==
          ids(searchsorted(list, v, true)));
  }
}
