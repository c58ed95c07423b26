#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/op/registry.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using ct::Tensor;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void check_values(const Tensor& got, const std::vector<double>& want, double margin = 1e-6) {
  ct::testing::check(got, want, margin);
}

// The gradient of f at the values, with cotangent 1.
template <class F>
Tensor gradient(F&& f, const std::vector<double>& at) {
  Tensor x = ct::from_vector(at, {.dtype = ct::f32});
  x.set_requires_grad();
  const Tensor y = f(x);
  y.backward(ct::ones_like(y));
  return x.grad();
}

}  // namespace

TEST_CASE("unary functions at values computed by hand", "[unary]") {
  const Tensor x = ct::tensor({-2.0, -0.5, 0.0, 1.0, 3.0});
  check_values(ct::neg(x), {2, 0.5, 0, -1, -3});
  check_values(-x, {2, 0.5, 0, -1, -3});
  check_values(ct::abs(x), {2, 0.5, 0, 1, 3});
  check_values(ct::sign(x), {-1, -1, 0, 1, 1});
  check_values(ct::exp(x), {0.135335283, 0.606530660, 1, 2.718281828, 20.08553692});
  check_values(ct::log(x), {kNaN, kNaN, -kInf, 0, 1.098612289});
  check_values(ct::sqrt(x), {kNaN, kNaN, 0, 1, 1.732050808});
  check_values(ct::rsqrt(x), {kNaN, kNaN, kInf, 1, 0.577350269});
  check_values(ct::square(x), {4, 0.25, 0, 1, 9});
  check_values(ct::reciprocal(x), {-0.5, -2, kInf, 1, 1.0 / 3});
  check_values(ct::sin(x), {-0.909297427, -0.479425539, 0, 0.841470985, 0.141120008});
  check_values(ct::cos(x), {-0.416146837, 0.877582562, 1, 0.540302306, -0.989992497});
  check_values(ct::tanh(x), {-0.964027580, -0.462117157, 0, 0.761594156, 0.995054754});
  check_values(ct::sigmoid(x), {0.119202922, 0.377540669, 0.5, 0.731058579, 0.952574127});
  check_values(ct::relu(x), {0, 0, 0, 1, 3});
  check_values(ct::leaky_relu(x), {-0.02, -0.005, 0, 1, 3});
  check_values(ct::leaky_relu(x, 0.5), {-1, -0.25, 0, 1, 3});
  check_values(ct::gelu(x), {-0.045500264, -0.154268770, 0, 0.841344746, 2.995950306});
  check_values(ct::gelu(x, ct::Gelu::tanh), {-0.045402306, -0.154285988, 0, 0.841191991, 2.996362608});
  check_values(ct::silu(x), {-0.238405844, -0.188770334, 0, 0.731058579, 2.857722381});
  check_values(ct::softplus(x), {0.126928011, 0.474076984, 0.693147181, 1.313261688, 3.048587352});
  check_values(ct::softplus(x, 2, 3), {0.009074964, 0.156630844, 0.346573590, 1.063464, 3});
  check_values(ct::erf(x), {-0.995322265, -0.520499878, 0, 0.842700793, 0.999977910});
  check_values(ct::clamp(x, -1, 1), {-1, -0.5, 0, 1, 1});
  check_values(ct::clamp(x, 0.5), {0.5, 0.5, 0.5, 1, 3});
  check_values(ct::clamp(x, std::nullopt, 0), {-2, -0.5, 0, 0, 0});
}

TEST_CASE("unary gradients at kinks and bounds are PyTorch's", "[unary]") {
  check_values(gradient(ct::relu, {-1, 0, 2, kNaN}), {0, 0, 1, 1});
  check_values(gradient(ct::abs, {-1, 0, 2}), {-1, 0, 1});
  check_values(gradient(ct::sign, {-1, 0, 2}), {0, 0, 0});
  check_values(gradient(ct::sqrt, {0, 4}), {kInf, 0.25});
  check_values(gradient([](const Tensor& x) { return ct::leaky_relu(x, 0.25); }, {-1, 0, 2}),
               {0.25, 0.25, 1});
  check_values(gradient([](const Tensor& x) { return ct::clamp(x, -1, 1); }, {-2, -1, 0, 1, 2}),
               {0, 1, 1, 1, 0});
  check_values(gradient([](const Tensor& x) { return ct::softplus(x, 1, 1); }, {0, 1, 2}),
               {0.5, 0.731058579, 1});
  check_values(gradient([](const Tensor& x) { return ct::gelu(x); }, {-1, 0, 1}),
               {-0.083315471, 0.5, 1.083315471});
  check_values(gradient(ct::silu, {0, 1}), {0.5, 0.927670512});
}

TEST_CASE("NaN and infinities go through unary functions", "[unary]") {
  const Tensor x = ct::tensor({kNaN, kInf, -kInf});
  for (const ct::DType t : {ct::f32, ct::f64, ct::f16, ct::bf16}) {
    INFO(ct::name(t));
    const Tensor v = x.to(t);
    check_values(ct::relu(v), {kNaN, kInf, 0});
    check_values(ct::clamp(v, -1, 1), {kNaN, 1, -1});
    check_values(ct::sign(v), {kNaN, 1, -1});
    check_values(ct::exp(v), {kNaN, kInf, 0});
    check_values(ct::log(v), {kNaN, kInf, kNaN});
    check_values(ct::tanh(v), {kNaN, 1, -1});
    check_values(ct::sigmoid(v), {kNaN, 1, 0});
    check_values(ct::erf(v), {kNaN, 1, -1});
    check_values(ct::sin(v), {kNaN, kNaN, kNaN});
    check_values(ct::softplus(v), {kNaN, kInf, 0});
    check_values(ct::leaky_relu(v), {kNaN, kInf, -kInf});
  }
  CHECK(std::signbit(ct::neg(ct::tensor({0.0})).item()));
  for (Tensor (*f)(const Tensor&) : {ct::tanh, ct::sin, ct::erf, ct::sqrt, ct::sign})
    CHECK(std::signbit(f(ct::tensor({-0.0})).item()));
  check_values(ct::exp(ct::tensor({-100.0, 88.7, 89.0})), {3.78350586e-44, 3.32597686e38, kInf});
}

TEST_CASE("integers keep their dtype in number functions and become f32 in the others", "[unary]") {
  const Tensor i = ct::tensor({-3, 0, 4}, {.dtype = ct::i32});
  CHECK(ct::neg(i).dtype() == ct::i32);
  check_values(ct::neg(i), {3, 0, -4});
  check_values(ct::abs(i), {3, 0, 4});
  check_values(ct::sign(i), {-1, 0, 1});
  check_values(ct::relu(i), {0, 0, 4});
  check_values(ct::square(i), {9, 0, 16});
  CHECK(ct::clamp(i, -1, 2).dtype() == ct::i32);
  check_values(ct::clamp(i, -1, 2), {-1, 0, 2});
  CHECK(ct::clamp(i, 0.5).dtype() == ct::f32);
  check_values(ct::clamp(i, 0.5), {0.5, 0.5, 4});
  CHECK(ct::exp(i).dtype() == ct::f32);
  check_values(ct::exp(i), {0.049787068, 1, 54.59815});
  CHECK(ct::sqrt(ct::tensor({true, false})).dtype() == ct::f32);
  CHECK_THROWS_AS(ct::neg(ct::tensor({1}, {.dtype = ct::u8})), ct::DTypeError);
  CHECK_THROWS_AS(ct::neg(ct::tensor({true})), ct::DTypeError);
}

TEST_CASE("unary functions in place", "[unary]") {
  Tensor x = ct::tensor({{-1.0, 2.0}, {0.5, -4.0}});
  Tensor column = x.select(1, 1);
  ct::relu_(column);
  check_values(x, {-1, 2, 0.5, 0});
  ct::clamp_(x, 0, 1);
  check_values(x, {0, 1, 0.5, 0});
  ct::exp_(x);
  check_values(x, {1, 2.718281828, 1.648721271, 1});
  ct::log_(x);
  ct::neg_(x);
  ct::abs_(x);
  ct::square_(x);
  check_values(x, {0, 1, 0.25, 0});
  ct::sqrt_(x);
  check_values(x, {0, 1, 0.5, 0});

  Tensor i = ct::tensor({4, 9});
  CHECK_THROWS_AS(ct::sqrt_(i), ct::DTypeError);
  CHECK_THROWS_AS(ct::clamp_(i, 0.5), ct::DTypeError);
  Tensor leaf = ct::tensor({1.0});
  leaf.set_requires_grad();
  CHECK_THROWS_AS(ct::exp_(leaf), ct::AutogradError);

  Tensor y = leaf * 2.0;
  ct::tanh_(y);
  y.backward();
  check_values(leaf.grad(), {2 * (1 - std::tanh(2.0) * std::tanh(2.0))});
}

TEST_CASE("gelu keeps its digits in the tails", "[unary]") {
  std::vector<float> at = {1e-3f, -1e-3f};
  for (float x = -13; x < 13; x += 0.0037f) at.push_back(x);
  const std::vector<float> y = ct::gelu(ct::from_vector(at)).to_vector<float>();
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double x = at[i], want = 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    const double error = std::fabs(y[i] - want) / std::fabs(want);
    if (error <= (std::fabs(x) < 9 ? 1e-7 * (4 + x * x) : 3e-5)) continue;
    FAIL_CHECK("at " << x << ": " << y[i] << " in place of " << want << ", off by " << error);
  }
}

TEST_CASE("unary errors say what to do", "[unary]") {
  const Tensor x = ct::tensor({1.0});
  CHECK_THROWS_WITH(ct::clamp(x, std::nullopt), Catch::Matchers::Contains("[clamp]"));
  CHECK_THROWS_AS(ct::clamp(x, std::nullopt), ct::ValueError);
  CHECK_THROWS_WITH(ct::clamp(x, NAN, 1), Catch::Matchers::Contains("[clamp] a bound is NaN"));
  const Tensor bytes = ct::full({2}, 200, {.dtype = ct::u8});
  CHECK_THROWS_WITH(ct::clamp(bytes, 300, 400),
                    "[clamp] the value 300 does not fit into u8, which holds 0 to 255; pass one of "
                    "those, or use another dtype");
  CHECK_THROWS_AS(ct::clamp(bytes, std::nullopt, -1), ct::ValueError);
  check_values(ct::clamp(bytes, 0, 100), {100, 100});
  CHECK_THROWS_AS(ct::softplus(x, 0), ct::ValueError);
  CHECK_THROWS_AS(ct::exp(Tensor()), ct::Error);
}

namespace {
// The squares of such numbers are infinite in f32.
void check_slopes_far_out(ct::Device device) {
  const Tensor x = ct::testing::leaf(ct::tensor({1e25f, -1e25f, 3e38f, -3e38f}).to(device));
  for (const auto f : {ct::Gelu::tanh, ct::Gelu::exact}) {
    Tensor t = ct::testing::leaf(x);
    ct::gelu(t, f).backward(ct::ones_like(t));
    CHECK(t.grad().to_vector<double>() == std::vector<double>{1, 0, 1, 0});
  }
}
}  // namespace

TEST_CASE("gelu's slope is 1 or 0 far from 0", "[unary]") { check_slopes_far_out(ct::cpu); }
TEST_CASE("gelu's slope is 1 or 0 far from 0, on CUDA", "[unary][cuda]") {
  check_slopes_far_out(ct::cuda(0));
}
