#include <cotangent/cotangent.h>

#include <cmath>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {
using V = std::vector<double>;
using testing::values;
Tensor labels(std::initializer_list<std::int64_t> list) { return tensor(list); }
}  // namespace

TEST_CASE("nll_loss by hand", "[nll_loss]") {
  Tensor x = tensor({{-1.f, -2.f, -3.f}, {-4.f, -5.f, -6.f}}).set_requires_grad();
  const Tensor t = labels({2, 0}), w = tensor({1.f, 2.f, 3.f});
  CHECK(values(nll_loss(x, t, {.reduction = Reduction::none})) == V{3, 4});
  CHECK(nll_loss(x, t).item() == 3.5);
  CHECK(nll_loss(x, t, {.reduction = Reduction::sum}).item() == 7);
  CHECK(values(nll_loss(x, t, {.weight = w, .reduction = Reduction::none})) == V{9, 4});
  CHECK(nll_loss(x, t, {.weight = w}).item() == 3.25);  // 13 / (3 + 1)
  CHECK(nll_loss(x, t, {.weight = w, .ignore_index = 0}).item() == 3);
  CHECK(values(nll_loss(x, t, {.ignore_index = 0, .reduction = Reduction::none})) == V{3, 0});
  CHECK(values(nll_loss(x, t.to(i32), {.reduction = Reduction::none})) == V{3, 4});

  nll_loss(x, t, {.weight = w}).backward();
  CHECK(values(x.grad()) == V{0, 0, -0.75, -0.25, 0, 0});
  x.set_grad({});
  nll_loss(x, t, {.ignore_index = 2}).backward();
  CHECK(values(x.grad()) == V{0, 0, 0, -1, 0, 0});
  x.set_grad({});
  nll_loss(x, t, {.reduction = Reduction::none}).backward(tensor({10.f, 100.f}));
  CHECK(values(x.grad()) == V{0, 0, -10, -100, 0, 0});
}

TEST_CASE("nll_loss of other ranks", "[nll_loss]") {
  CHECK(nll_loss(tensor({-1.f, -2.f}), tensor(std::int64_t{1})).item() == 2);
  // [1, 2, 3]: class 0 holds -1 -2 -3, class 1 holds -4 -5 -6.
  const Tensor x = tensor({{{-1.f, -2.f, -3.f}, {-4.f, -5.f, -6.f}}});
  const Tensor t = tensor({{std::int64_t{1}, std::int64_t{0}, std::int64_t{1}}});
  CHECK(values(nll_loss(x, t, {.reduction = Reduction::none})) == V{4, 2, 6});
}

TEST_CASE("nll_loss with nothing to count", "[nll_loss]") {
  Tensor x = ones({2, 3}).set_requires_grad();
  const Tensor loss = nll_loss(x, labels({-100, -100}));
  CHECK(std::isnan(loss.item()));
  loss.backward();
  CHECK(values(x.grad()) == V(6, 0));
  CHECK(std::isnan(nll_loss(zeros({0, 3}), zeros({0}, {.dtype = i64})).item()));
  CHECK(nll_loss(zeros({0, 3}), zeros({0}, {.dtype = i64}), {.reduction = Reduction::sum}).item() == 0);
}

TEST_CASE("nll_loss refuses what does not fit", "[nll_loss]") {
  CHECK_THROWS_WITH(
      nll_loss(zeros({4, 3}), zeros({5}, {.dtype = i64})),
      "[nll_loss] target is i64[5], log_probs is f32[4, 3]; class labels must have shape [4], one per "
      "row");
  CHECK_THROWS_AS(nll_loss(zeros({2, 3}), zeros({2})), DTypeError);
  CHECK_THROWS_AS(nll_loss(zeros({2, 3}), labels({0, 3})), IndexError);
  CHECK_THROWS_AS(nll_loss(zeros({2, 3}), labels({-1, 0})), IndexError);
}

TEST_CASE("nll_loss on the GPU reports labels out of range and goes on", "[nll_loss][cuda]") {
  const Tensor x = randn({50000, 7}), t = randint(0, 7, {50000}, {.dtype = i64}), w = rand({7});
  CHECK(nll_loss(x.to(cuda(0)), t.to(cuda(0)), {.weight = w.to(cuda(0))}).item() ==
        Approx(nll_loss(x, t, {.weight = w}).item()).epsilon(1e-5).margin(1e-6));
  const Tensor bad = labels({0, 3}).to(cuda(0)), y = zeros({2, 3}, {.device = cuda(0)});
  CHECK_THROWS_WITH(
      nll_loss(y, bad).item(),
      "[nll_loss] class label 3 is out of range for 3 classes; labels must lie in [0, 3) or equal "
      "ignore_index");
  CHECK(nll_loss(y, labels({0, 2}).to(cuda(0))).item() == 0);
}
