#include <cotangent/ops/softmax/masked_softmax.h>

#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/softmax/softmax.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using V = std::vector<double>;

Tensor bools(const Shape& shape, std::initializer_list<bool> values) {
  Tensor t = Tensor::allocate(shape, boolean, cpu);
  std::copy(values.begin(), values.end(), t.data<bool>());
  return t;
}

}  // namespace

TEST_CASE("masked_softmax by hand", "[masked_softmax]") {
  const testing::In in{GENERATE(f64, f32)};
  // 2 x = (0, ln 3, 7, ln 4) with the third hidden: weights 1, 3, 0, 4 of 8.
  const Tensor x = testing::leaf(in.values({1, 4}, {0, std::log(3.0) / 2, 3.5, std::log(4.0) / 2}));
  const Tensor y = masked_softmax(x, bools({4}, {true, true, false, true}), 2);
  in.check(y, {0.125, 0.375, 0, 0.5});
  y.backward(in.values({1, 4}, {8, 0, 5, 0}));  // sum(g y) = 1, dx = 2 y (g - 1)
  in.check(x.grad(), {1.75, -0.75, 0, -1});
}

TEST_CASE("masked_softmax gives 0 where all is hidden, and hides NaN", "[masked_softmax]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {f64, f32, bf16}) {
    Tensor x = ones({3, 2}, {.dtype = f64});
    x.data<double>()[1] = nan;  // hidden
    x.data<double>()[5] = nan;  // seen
    x = x.to(dtype);
    const V y = masked_softmax(x, bools({3, 2}, {true, false, false, false, true, true})).to_vector<double>();
    CHECK((y[0] == 1 && y[1] == 0 && y[2] == 0 && y[3] == 0));
    CHECK((std::isnan(y[4]) && std::isnan(y[5])));
  }
}

TEST_CASE("masked_softmax along any axis is softmax of the masked scores", "[masked_softmax]") {
  const testing::In in{GENERATE(f64, f32)};
  Generator generator(4);
  const auto draw = [&](const Shape& shape) { return randn(shape, {.dtype = in.dtype}, generator); };
  for (const std::int64_t axis : {0, 1, -1}) {
    const Tensor x = testing::leaf(draw({3, 5, 7})), mask = testing::leaf(draw({5, 7})), g = draw({3, 5, 7});
    const Tensor x2 = testing::leaf(x), mask2 = testing::leaf(mask);
    const Tensor y = masked_softmax(x, mask, 0.3, axis), z = softmax(x2 * 0.3 + mask2, axis);
    y.backward(g);
    z.backward(g);
    in.check(y, z.to_vector<double>());
    in.check(x.grad(), x2.grad().to_vector<double>());
    in.check(mask.grad(), mask2.grad().to_vector<double>());
  }
}

TEST_CASE("masked_softmax refuses what does not fit", "[masked_softmax]") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_AS(masked_softmax(x, ones({2})), ShapeError);
  CHECK_THROWS_AS(masked_softmax(x, ones({2}), 1, 0), ShapeError);
  CHECK_THROWS_AS(masked_softmax(x, ones({2, 3}), 1, 2), ShapeError);
  CHECK_THROWS_AS(masked_softmax(x, Tensor{}), Error);
  CHECK_THROWS_AS(masked_softmax(x, ones({3}), std::nan("")), ValueError);
}

TEST_CASE("masked_softmax on CUDA agrees with the CPU", "[masked_softmax][cuda]") {
  Generator generator(6);
  for (const auto& [dtype, tolerance] : {std::pair{f64, 1e-13}, std::pair{f32, 1e-6}, std::pair{bf16, 1e-2}})
    for (const std::int64_t n : {1, 10, 64, 513, 1024, 4096, 5001}) {
      const Tensor x = randn({2, 3, 5, n}, {.dtype = f64}, generator).to(dtype);
      const Tensor mask = randn({2, 1, 5, n}, {.dtype = f32}, generator),
                   g = randn({2, 3, 5, n}, {}, generator).to(dtype);
      const auto run = [&](Device device) {
        Tensor a = x.to(device).detach(), m = mask.to(device).detach();
        a.set_requires_grad(), m.set_requires_grad();
        const Tensor y = masked_softmax(a, m, 0.7);
        y.backward(g.to(device));
        return std::vector<V>{y.to_vector<double>(), a.grad().to_vector<double>(),
                              m.grad().to_vector<double>()};
      };
      const std::vector<V> here = run(cpu), there = run(cuda(0));
      for (std::size_t k = 0; k < here.size(); ++k)
        for (std::size_t i = 0; i < here[k].size(); ++i) {
          CAPTURE(k, i, n);
          REQUIRE(std::abs(here[k][i] - there[k][i]) <= tolerance * (1 + std::abs(here[k][i])));
        }
    }
}

TEST_CASE("a hidden row of masked_softmax is 0 on CUDA and a NaN shows, however long the row",
          "[masked_softmax][cuda]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {f64, f32, bf16})
    for (const std::int64_t n : {2, 40, 385, 1024, 1032, 5001}) {
      Tensor x = ones({3, n}, {.dtype = f64}), seen = ones({3, n}, {.dtype = boolean});
      for (std::int64_t i = 0; i < n; ++i) seen.data<bool>()[n + i] = false;
      for (const std::int64_t i : {n / 2, n}) x.data<double>()[i] = nan;  // hidden
      seen.data<bool>()[n / 2] = false;
      x.data<double>()[2 * n] = nan;
      const V y = masked_softmax(x.to(dtype).to(cuda(0)), seen.to(cuda(0))).to_vector<double>();
      CAPTURE(dtype, n);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i), row = static_cast<std::size_t>(n);
        const double share = i == n / 2 ? 0 : 1 / static_cast<double>(n - 1);
        REQUIRE(std::abs(y[at] - share) <= (dtype == bf16 ? 4e-3 : 1e-6) * share);
        REQUIRE(y[row + at] == 0);
        REQUIRE(std::isnan(y[2 * row + at]));
      }
    }
}
