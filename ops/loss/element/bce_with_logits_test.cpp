#include <cotangent/cotangent.h>

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {
using V = std::vector<double>;
using testing::values;
void check_near(const Tensor& t, const V& want, double margin = 1e-6) {
  const V got = values(t);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(margin));
}
}  // namespace

TEST_CASE("bce_with_logits by hand", "[bce_with_logits]") {
  Tensor x = tensor({0.f, 2.f, -3.f}).set_requires_grad();
  const Tensor y = tensor({1.f, 0.f, 1.f});
  const V want{0.6931472, 2.1269280, 3.0485874};  // softplus of 0, 2, 3
  check_near(bce_with_logits(x, y, {.reduction = Reduction::none}), want);
  CHECK(bce_with_logits(x, y, {.reduction = Reduction::sum}).item() == Approx(5.8686626));
  const Tensor mean = bce_with_logits(x, y);
  CHECK(mean.item() == Approx(1.9562209));
  mean.backward();  // (sigmoid(x) - y) / 3
  check_near(x.grad(), {-0.5 / 3, 0.8807971 / 3, -0.9525741 / 3});
}

TEST_CASE("weights of bce_with_logits", "[bce_with_logits]") {
  const Tensor x = tensor({{0.f, 2.f}, {-3.f, 1.f}}), y = tensor({{1.f, 0.f}, {1.f, 1.f}});
  const V plain{0.6931472, 2.1269280, 3.0485874, 0.3132617};
  const auto run = [&](Tensor weight, Tensor pos_weight) {
    return bce_with_logits(x, y, {weight, pos_weight, Reduction::none});
  };
  check_near(run(tensor({1.f, 10.f}), {}), {plain[0], 10 * plain[1], plain[2], 10 * plain[3]});
  check_near(run(tensor({{1.f}, {10.f}}), {}), {plain[0], plain[1], 10 * plain[2], 10 * plain[3]});
  check_near(run({}, tensor({3.f, 5.f})), {3 * plain[0], plain[1], 3 * plain[2], 5 * plain[3]});
  check_near(run(tensor(2.f), tensor(7.f)), {14 * plain[0], 2 * plain[1], 14 * plain[2], 14 * plain[3]});
  // The mean divides by the number of elements, not by the weights.
  CHECK(bce_with_logits(x, y, {.weight = tensor(2.f)}).item() == Approx(2 * 6.1819243 / 4));
}

TEST_CASE("bce_with_logits of large inputs", "[bce_with_logits]") {
  Tensor x = tensor({1000.f, -1000.f, 1000.f, -1000.f, 20.f}).set_requires_grad();
  const Tensor y = tensor({0.f, 0.f, 1.f, 1.f, 1.f});
  const Tensor loss = bce_with_logits(x, y, {.reduction = Reduction::none});
  check_near(loss, {1000, 0, 0, 1000, 2.0611537e-9}, 1e-14);
  loss.backward(ones({5}));
  check_near(x.grad(), {1, 0, 0, -1, -2.0611537e-9}, 1e-14);
}

TEST_CASE("bce_with_logits refuses what does not fit", "[bce_with_logits]") {
  CHECK_THROWS_AS(bce_with_logits(zeros({4, 1}), zeros({4})), ShapeError);
  CHECK_THROWS_WITH(bce_with_logits(zeros({4, 3}), zeros({4, 3}), {.pos_weight = ones({4})}),
                    "[bce_with_logits] pos_weight is f32[4], input is f32[4, 3]; it must broadcast to the "
                    "input's shape");
  CHECK_THROWS_AS(bce_with_logits(zeros({4}), zeros({4}, {.dtype = i64})), DTypeError);
}

TEST_CASE("bce_with_logits on the GPU", "[bce_with_logits][cuda]") {
  const Tensor x = randn({777, 10}), y = rand({777, 10}), w = rand({10}), p = rand({777, 1});
  const auto run = [&](Device d) {
    Tensor xd = x.to(d).set_requires_grad();
    const Tensor loss = bce_with_logits(xd, y.to(d), {.weight = w.to(d), .pos_weight = p.to(d)});
    loss.backward();
    return std::pair{loss.item(), values(xd.grad())};
  };
  const auto [loss, grad] = run(cuda(0));
  const auto [want_loss, want_grad] = run(cpu);
  CHECK(loss == Approx(want_loss).epsilon(1e-5));
  for (std::size_t i = 0; i < grad.size(); ++i)
    CHECK(grad[i] == Approx(want_grad[i]).epsilon(1e-4).margin(1e-9));
}
