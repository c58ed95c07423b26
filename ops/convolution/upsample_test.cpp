#include <cotangent/cotangent.h>

#include <cmath>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {

using V = std::vector<double>;
using testing::values;
void near(const Tensor& t, const V& want) {
  const V got = values(t);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(1e-6));
}
Tensor line() { return tensor({1.f, 2.f, 4.f}).reshape({1, 1, 3}); }

}  // namespace

TEST_CASE("nearest takes the pixel at floor(p n / m)", "[upsample]") {
  const Tensor x = tensor({1.f, 2.f, 3.f, 4.f}).reshape({1, 1, 2, 2});
  CHECK(values(interpolate(x, {.scale_factor = 2})) == V{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4});
  CHECK(values(upsample_nearest(x, {1, 3})) == V{1, 1, 2});
  CHECK(interpolate(x, {.scale_factor = {1, 2.6}}).shape() == Shape{1, 1, 2, 5});
  CHECK(values(interpolate(line(), {.size = 5})) == V{1, 1, 2, 2, 4});
  CHECK(values(interpolate(line(), {.size = 2})) == V{1, 2});
  // By the factor, not by the sizes: 3 * 1.9 is 5.7, and 4 / 1.9 is above 2.
  CHECK(values(interpolate(line(), {.scale_factor = 1.9})) == V{1, 1, 2, 2, 4});
  // 49 elements made to 98 and more: no division falls short of a whole number.
  const Tensor long_line = arange(0, 49).to(f32).reshape({1, 1, 49});
  for (const std::int64_t times : {2, 3, 7, 49}) {
    const V got = values(interpolate(long_line, {.size = 49 * times}));
    for (std::size_t p = 0; p < got.size(); ++p)
      if (got[p] != static_cast<double>(static_cast<std::int64_t>(p) / times))
        FAIL_CHECK(p << " of " << times);
  }
}

TEST_CASE("linear mixes two elements, by the edges or by the corners", "[upsample]") {
  const auto linear = [](std::int64_t size, bool corners) {
    return interpolate(line(), {.size = size, .mode = Interpolation::linear, .align_corners = corners});
  };
  near(linear(6, false), {1, 1.25, 1.75, 2.5, 3.5, 4});
  near(linear(5, true), {1, 1.5, 2, 3, 4});
  near(linear(1, true), {1});
  near(linear(1, false), {2});
  near(linear(2, false), {1.25, 3.5});
  near(interpolate(line(), {.scale_factor = 1.5, .mode = Interpolation::linear}),
       {1, 1.5, 7.0 / 3, 11.0 / 3});
}

TEST_CASE("bilinear mixes four pixels", "[upsample]") {
  const Tensor x = tensor({1.f, 2.f, 3.f, 5.f}).reshape({1, 1, 2, 2});
  near(upsample_bilinear(x, 3, true), {1, 1.5, 2, 2, 2.75, 3.5, 3, 4, 5});
  near(upsample_bilinear(x, {2, 4}), {1, 1.25, 1.75, 2, 3, 3.5, 4.5, 5});
  // A pixel without a share is not read.
  const Tensor inf = tensor({1.f, INFINITY}).reshape({1, 1, 1, 2});
  CHECK(values(upsample_bilinear(inf, {1, 2})) == V{1, INFINITY});
}

TEST_CASE("the gradient of a resized image goes where its pixels looked", "[upsample]") {
  Tensor x = tensor({1.f, 2.f, 4.f}).reshape({1, 1, 3}).detach().set_requires_grad();
  const Tensor g = tensor({1.f, 10.f, 100.f, 1000.f, 10000.f}).reshape({1, 1, 5});
  near(grad({interpolate(x, {.size = 5})}, {x}, {g})[0], {11, 1100, 10000});
  near(grad({interpolate(x, {.size = 5, .mode = Interpolation::linear, .align_corners = true})}, {x}, {g})[0],
       {6, 605, 10500});
}

TEST_CASE("large images on CUDA are resized as on the CPU", "[upsample][cuda]") {
  for (const auto mode : {Interpolation::nearest, Interpolation::bilinear})
    for (const Size2d size : {Size2d(64, 128), Size2d(70, 131), Size2d(20, 24)})
      for (const DType dtype : {f32, f64, f16, bf16}) {
        INFO(dtype << ' ' << size.height);
        const Tensor x = randn({33, 7, 32, 64}).to(dtype),
                     g = randn({33, 7, size.height, size.width}).to(dtype);
        const auto run = [&](Device device) {
          Tensor there = x.to(device).detach().set_requires_grad();
          const Tensor y = interpolate(there, {.size = size, .mode = mode});
          y.backward(g.to(device));
          return std::array{y.detach().to(cpu).to(f64), there.grad().to(cpu).to(f64)};
        };
        const auto got = run(cuda(0)), want = run(cpu);
        const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 1e-3 : 8e-3;
        for (std::size_t part = 0; part < 2; ++part) {
          const V a = values(got[part]), b = values(want[part]);
          double worst = 0;
          for (std::size_t i = 0; i < a.size(); ++i)
            worst = std::max(worst, std::abs(a[i] - b[i]) / (1 + std::abs(b[i])));
          CHECK(worst < tolerance);
        }
      }
}

TEST_CASE("interpolate refuses what makes no image", "[upsample]") {
  const Tensor x = randn({1, 2, 3, 4});
  CHECK_THROWS_AS(interpolate(x, {}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = 2, .scale_factor = 2}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = 0}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = 0.2}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = -2}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = NAN}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = 2, .mode = Interpolation::linear}), ValueError);
  CHECK_THROWS_AS(interpolate(line(), {.size = 2, .mode = Interpolation::bilinear}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = 2, .align_corners = true}), ValueError);
  CHECK_THROWS_AS(interpolate(x[0][0], {.size = 2}), ShapeError);
  CHECK_THROWS_AS(interpolate(x.to(i64), {.size = 2}), DTypeError);
  CHECK_THROWS_AS(interpolate(Tensor{}, {.size = 2}), Error);
}
