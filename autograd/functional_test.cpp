#include <cmath>
#include <vector>

#include <cotangent/cotangent.h>

#include "tests/catch.h"

using namespace ct;

namespace {

const std::vector<double> kX{0.5, -1.25, 2};

Tensor x() { return from_vector(kX, {3}); }
Tensor f(const Tensor& t) { return sum(t * t * t); }

}  // namespace

TEST_CASE("value_and_grad gives both and touches no tensor", "[functional]") {
  Tensor at = x().requires_grad_();
  const auto [value, dx] = value_and_grad(f, at);
  CHECK(value.item() == Approx(0.125 - 1.953125 + 8));
  CHECK(!value.requires_grad());
  CHECK(allclose(dx, 3 * x() * x()));
  CHECK(!at.grad().defined());
  // Recorded also where recording is off, and for several inputs; one that is not used has a gradient of 0.
  const NoGrad guard;
  const auto both = value_and_grad([](const std::vector<Tensor>& in) { return sum(in[0] * in[1]); },
                                   {x(), x() + 1, ones({2}, {.dtype = f64})});
  CHECK(allclose(both.gradients[0], x() + 1));
  CHECK(allclose(both.gradients[1], x()));
  CHECK(equal(both.gradients[2], zeros({2}, {.dtype = f64})));
  CHECK_THROWS_AS(value_and_grad([](const Tensor& t) { return t; }, x()), ShapeError);
  CHECK_THROWS_AS(value_and_grad(f, x().to(i64)), DTypeError);
  CHECK_THROWS_AS(value_and_grad(TensorsFunction(), {x()}), ValueError);
}

TEST_CASE("vjp and jvp multiply with the matrix of derivatives from either side", "[functional]") {
  const Tensor a = tensor({{1., 2., 3.}, {-1., 0.5, 2.}}, {.dtype = f64});
  const auto g = [&](const Tensor& t) { return matmul(a, t * t); };  // J = 2 A diag(x)
  const Tensor j = 2 * a * x(), left = tensor({0.5, -3.}, {.dtype = f64}),
               right = tensor({1., 2., -1.}, {.dtype = f64});
  const auto [value, product] = vjp(g, x(), left);
  CHECK(allclose(value, matmul(a, x() * x())));
  CHECK(allclose(product, matmul(left, j)));
  const auto forward = jvp(g, x(), right);
  CHECK(allclose(forward.value, value));
  CHECK(allclose(forward.derivative, matmul(j, right)));
  CHECK(allclose(jacobian(g, x()), j));
  // A linear function's gradient does not depend on its input; a constant's is 0.
  CHECK(
      allclose(jvp([&](const Tensor& t) { return matmul(a, t); }, x(), right).derivative, matmul(a, right)));
  CHECK(equal(jvp([&](const Tensor&) { return left; }, x(), right).derivative, zeros_like(left)));
  CHECK_THROWS_AS(vjp(g, x(), right), ShapeError);
  CHECK_THROWS_AS(jvp(g, x(), left), ShapeError);
  CHECK_THROWS_AS(jvp([](const std::vector<Tensor>& in) { return in[0]; }, {x()}, {}), ValueError);
}

TEST_CASE("jacobian and hessian have the axes of both sides", "[functional]") {
  const Tensor m = tensor({{1., 2.}, {3., 4.}});
  const std::vector<Tensor> j =
      jacobian([](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); }, {m, tensor({5., 6.})});
  REQUIRE(j[0].sizes() == Shape{2, 2, 2});
  CHECK(j[0].to_vector<double>() == std::vector<double>{5, 6, 0, 0, 0, 0, 5, 6});
  CHECK(equal(j[1], m));
  CHECK(jacobian([](const Tensor& t) { return t.narrow(0, 0, 0); }, x()).sizes() == Shape{0, 3});

  CHECK(allclose(hessian(f, x()), diag(6 * x())));
  const auto h = hessian([](const std::vector<Tensor>& in) { return sum(in[0] * in[0] * in[1]); },
                         {x(), tensor({1., 2., 3.}, {.dtype = f64})});
  CHECK(allclose(h[0][0], diag(tensor({2., 4., 6.}))));
  CHECK(allclose(h[0][1], diag(2 * x())));
  CHECK(allclose(h[1][0], diag(2 * x())));
  CHECK(equal(h[1][1], zeros({3, 3}, {.dtype = f64})));
  CHECK_THROWS_AS(hessian([](const Tensor& t) { return t; }, x()), ShapeError);
  const Tensor deep = zeros({1, 1, 1, 1, 1}, {.dtype = f64});
  CHECK_THROWS_AS(jacobian([](const Tensor& t) { return t * 2; }, deep), ShapeError);
}
