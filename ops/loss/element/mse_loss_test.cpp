#include <cotangent/cotangent.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {
using V = std::vector<double>;
using testing::values;
}  // namespace

TEST_CASE("mse_loss by hand", "[mse_loss]") {
  Tensor x = tensor({1.f, 2.f, 4.f}).set_requires_grad(), y = tensor({1.f, 0.f, 1.f}).set_requires_grad();
  CHECK(values(mse_loss(x, y, {.reduction = Reduction::none})) == V{0, 4, 9});
  CHECK(mse_loss(x, y, {.reduction = Reduction::sum}).item() == 13);
  const Tensor mean = mse_loss(x, y);
  CHECK(mean.shape() == Shape{});
  CHECK(mean.item() == Approx(13.0 / 3));
  mean.backward();
  CHECK(values(x.grad())[1] == Approx(4.0 / 3));
  CHECK(values(x.grad())[2] == Approx(2));
  CHECK(values(y.grad())[1] == Approx(-4.0 / 3));
  x.set_grad({});
  mse_loss(x, y, {.reduction = Reduction::none}).backward(tensor({1.f, 10.f, 100.f}));
  CHECK(values(x.grad()) == V{0, 40, 600});
}

TEST_CASE("mse_loss does not broadcast", "[mse_loss]") {
  CHECK_THROWS_WITH(mse_loss(zeros({4, 1}), zeros({4})),
                    "[mse_loss] input is f32[4, 1], target is f32[4]; they must have the same shape: use "
                    "reshape() or expand()");
  CHECK(std::isnan(mse_loss(zeros({0}), zeros({0})).item()));
  CHECK(mse_loss(zeros({0}), zeros({0}), {.reduction = Reduction::sum}).item() == 0);
}

TEST_CASE("mse_loss sums long tensors exactly enough", "[mse_loss]") {
  const Tensor x = full({1 << 20}, 3.0), y = full({1 << 20}, 1.0);
  CHECK(mse_loss(x, y).item() == 4);
  CHECK(mse_loss(x.to(f16), y.to(f16)).item() == 4);
  CHECK(mse_loss(full({1 << 20}, 0.1), zeros({1 << 20})).item() == Approx(0.01).epsilon(1e-6));
}

TEST_CASE("mse_loss on the GPU", "[mse_loss][cuda]") {
  for (const std::int64_t n : {1, 1000, 100003}) {
    const Tensor x = randn({n}), y = randn({n});
    CHECK(mse_loss(x.to(cuda(0)), y.to(cuda(0))).item() == Approx(mse_loss(x, y).item()).epsilon(1e-5));
  }
}
