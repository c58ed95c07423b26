#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;
namespace d = ct::distributions;

namespace {

using V = std::vector<double>;
using testing::values;
Tensor normals(const Shape& shape) { return randn(shape, {.dtype = f64}); }
double distance(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }
const double kInf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("bernoulli draws ones as often as it should", "[sampling]") {
  Generator g(3);
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const Tensor p = from_vector<double>({0, 0.25, 0.5, 1}, {4, 1}).to(dtype);
    const Tensor y = bernoulli(p.expand({4, 20000}), g);
    CHECK(y.dtype() == dtype);
    const V means = values(mean(y.to(f64), {1}));
    CHECK(means[0] == 0);
    CHECK(means[1] == Approx(0.25).margin(4 * 0.44 / 141));
    CHECK(means[2] == Approx(0.5).margin(4 * 0.5 / 141));
    CHECK(means[3] == 1);
  }
  CHECK(bernoulli(zeros({0, 3}), g).shape() == Shape{0, 3});
  CHECK_THROWS_AS(bernoulli(full({2}, 1.5)), ValueError);
  CHECK_THROWS_AS(bernoulli(full({2}, -0.5)), ValueError);
  CHECK_THROWS_AS(bernoulli(full({2}, std::nan(""))), ValueError);
  CHECK_THROWS_AS(bernoulli(zeros({2}, {.dtype = i64})), DTypeError);
  CHECK_FALSE(bernoulli(full({2}, 0.5).set_requires_grad()).requires_grad());
}

TEST_CASE("categorical distributions", "[sampling]") {
  const Tensor logits = normals({2, 3, 5}), p = softmax(logits, -1);
  const d::Categorical c(logits);
  const Tensor choice = from_vector<std::int64_t>({0, 4, 2, 1, 3, 0}, {2, 3});
  const V logs = values(c.log_prob(choice)), all = values(log(p));
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(logs[i] ==
          Approx(all[i * 5 + static_cast<std::size_t>(choice.reshape({6})[static_cast<int>(i)].item())]));
  CHECK(c.log_prob(choice).shape() == Shape{2, 3});
  CHECK(distance(c.entropy(), -sum(p * log(p), {-1})) < 1e-14);
  CHECK(distance(c.probs(), p) == 0);
  CHECK(distance(d::Categorical::from_probs(p * 3).entropy(), c.entropy()) < 1e-14);
  // Impossible outcomes have no part in the entropy.
  const Tensor sure = from_vector<double>({0, -kInf, 0}, {3});
  CHECK(d::Categorical(sure).entropy().item() == Approx(std::log(2)));
  CHECK(d::kl_divergence(d::Categorical(sure), d::Categorical(zeros({3}, {.dtype = f64}))).item() ==
        Approx(std::log(1.5)));
  Generator g(1);
  const Tensor drawn = d::Categorical(sure.expand({1000, 3})).sample(g);
  CHECK(drawn.shape() == Shape{1000});
  CHECK(sum(eq(drawn, 1)).item() == 0);
  CHECK(sum(eq(drawn, 0)).item() == Approx(500).margin(64));
  CHECK(gradcheck([](auto& x, auto& v) { return d::Categorical(x).log_prob(v); }, {logits, choice}));
  CHECK(gradcheck([](const Tensor& x) { return d::Categorical(x).entropy(); }, {logits}));
  const Tensor other = normals({2, 3, 5});
  CHECK(distance(d::kl_divergence(c, d::Categorical(other)),
                 sum(p * (log(p) - log_softmax(other, -1)), {-1})) < 1e-13);
  CHECK_THROWS_AS(c.log_prob(choice.narrow(1, 0, 2)), ShapeError);
  CHECK_THROWS_AS(c.log_prob(choice + 3), IndexError);
  CHECK_THROWS_AS(d::Categorical(zeros({})), ShapeError);
  CHECK_THROWS_AS(d::Categorical(zeros({3, 0})), ShapeError);
  CHECK_THROWS_AS(d::Categorical(zeros({3}, {.dtype = i64})), DTypeError);
}

TEST_CASE("bernoulli and normal distributions", "[sampling]") {
  const Tensor logits = normals({4, 3}), p = sigmoid(logits), ones = full({4, 3}, 1.0, {.dtype = f64});
  const d::Bernoulli b(logits);
  CHECK(distance(b.log_prob(ones), log(p)) < 1e-14);
  CHECK(distance(b.log_prob(ones * 0), log(1 - p)) < 1e-13);
  CHECK(distance(b.entropy(), -(p * log(p) + (1 - p) * log(1 - p))) < 1e-13);
  CHECK(b.sample().shape() == Shape{4, 3});
  CHECK(gradcheck([](const Tensor& x) { return d::Bernoulli(x).entropy(); }, {logits}));

  const Tensor mean = normals({3}), std = exp(normals({2, 1})), x = normals({2, 3});
  const d::Normal n(mean, std);
  const Tensor density = exp(-square(x - mean) / (2 * square(std))) / (std * std::sqrt(2 * std::numbers::pi));
  CHECK(distance(n.log_prob(x), log(density)) < 1e-12);
  CHECK(n.entropy().shape() == Shape{2, 3});
  CHECK(n.entropy()[1][2].item() ==
        Approx(0.5 * std::log(2 * std::numbers::pi * std::numbers::e) + std::log(std[1][0].item())));
  Generator g(2);
  const Tensor many = d::Normal(full({20000}, 3.0), full({20000}, 0.5)).sample(g);
  CHECK(ct::mean(many).item() == Approx(3).margin(4 * 0.5 / 141));
  CHECK(stddev(many).item() == Approx(0.5).margin(0.012));
  Tensor leaf = std.clone().set_requires_grad();
  CHECK_FALSE(d::Normal(mean, leaf).sample().requires_grad());
  sum(d::Normal(mean, leaf).rsample()).backward();
  CHECK(leaf.grad().shape() == Shape{2, 1});
  CHECK(gradcheck([](auto& m, auto& s, auto& v) { return d::Normal(m, s).log_prob(v); }, {mean, std, x}));
  const d::Normal other(mean + 1, std * 2);
  const Tensor kl = std::log(2.0) + (square(std) + 1) / (2 * square(2 * std)) - 0.5;
  CHECK(distance(d::kl_divergence(n, other), kl.expand({2, 3})) < 1e-13);
  CHECK_THROWS_AS(d::Normal(normals({3}), normals({2})).sample(), ShapeError);
}

TEST_CASE("a GPU draws the same", "[sampling][cuda]") {
  Generator g(5), h(5);
  const Tensor p = rand({1000}), m = randn({1000});
  CHECK(values(bernoulli(p, g)) == values(bernoulli(p.to(cuda(0)), h)));
  CHECK(values(normal(m, p, g)) == values(normal(m.to(cuda(0)), p.to(cuda(0)), h)));
}

TEST_CASE("choices without a probability add nothing, in every dtype", "[distributions]") {
  const double inf = std::numeric_limits<double>::infinity(), e = std::exp(1.0);
  const double entropy = std::log(1 + e) - e / (1 + e);  // of logits 0 and 1
  for (const DType dtype : {f64, f32, f16, bf16}) {
    INFO(dtype);
    const double tolerance = dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : dtype == f16 ? 2e-3 : 1e-2;
    const Tensor logits = testing::values({3}, {0, 1, -inf}, dtype).set_requires_grad();
    const d::Categorical p(logits), even(testing::values({3}, {0, 0, 0}, dtype)),
        other(testing::values({3}, {0, -inf, 0}, dtype));
    testing::check(p.entropy(), {entropy}, tolerance);
    testing::check(d::kl_divergence(p, p), {0}, tolerance);
    testing::check(d::kl_divergence(p, even), {std::log(3.0) - entropy}, tolerance);
    testing::check(d::kl_divergence(even, p), {inf});
    testing::check(d::kl_divergence(p, other), {inf});
    (p.entropy() + d::kl_divergence(p, even)).backward();
    testing::check(logits.grad(), {0, 0, 0}, tolerance);
    // Probabilities instead of logits: a probability of 0 has a gradient too.
    for (const bool weights : {false, true}) {
      const double sum = weights ? 2 : 1;
      Tensor probs = testing::values({3}, {0, 0.5 * sum, 0.5 * sum}, dtype).set_requires_grad();
      const d::Categorical q = d::Categorical::from_probs(probs);
      testing::check(q.probs(), {0, 0.5, 0.5}, tolerance);
      testing::check(q.entropy(), {std::log(2.0)}, tolerance);
      testing::check(d::kl_divergence(q, q), {0}, tolerance);
      testing::check(d::kl_divergence(p, q), {inf});
      testing::check(q.log_prob(scalar(std::int64_t{0})), {-inf});
      q.log_prob(scalar(std::int64_t{1})).backward();
      testing::check(probs.grad(), {-1 / sum, 1 / sum, -1 / sum}, tolerance);
      probs.set_grad({});
      const d::Categorical again = d::Categorical::from_probs(probs);
      (again.entropy() + d::kl_divergence(again, even)).backward();
      testing::check(probs.grad(), {0, 0, 0}, tolerance);
    }
  }
}
