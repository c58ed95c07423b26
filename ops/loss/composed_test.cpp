#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "tests/autograd_testing.h"
#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;
using Catch::Contains;
using ct::testing::message_of;

namespace {

using V = std::vector<double>;

using testing::values;
Tensor row(V list) {
  const auto n = static_cast<std::int64_t>(list.size());
  return from_vector(list, {n});
}
Tensor normal(const Shape& shape) { return randn(shape, {.dtype = f64}); }
double distance(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }

// A loss of one input and one target element, and of many: one by one, their mean, their sum.
void check_elements(const std::function<Tensor(const Tensor&, const Tensor&, Reduction)>& loss,
                    const std::function<double(double, double)>& one, const Tensor& x, const Tensor& t) {
  V wanted;
  double all = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    wanted.push_back(one(x[i].item(), t[i].item()));
    all += wanted.back();
  }
  CHECK(distance(loss(x, t, Reduction::none), row(wanted)) < 1e-14);
  CHECK(loss(x, t, Reduction::sum).item() == Approx(all).epsilon(1e-14));
  CHECK(loss(x, t, Reduction::mean).item() == Approx(all / static_cast<double>(x.numel())).epsilon(1e-14));
  CHECK(gradcheck([&](auto& a, auto& b) { return loss(a, b, Reduction::none); }, {x, t}));
  CHECK(std::isnan(loss(zeros({0}), zeros({0}), Reduction::mean).item()));
  CHECK(loss(zeros({0, 3}), zeros({0, 3}), Reduction::none).shape() == Shape{0, 3});
  CHECK(loss(x.to(bf16), t.to(bf16), Reduction::none).dtype() == bf16);
  CHECK_THROWS_AS(loss(x, t.reshape({-1, 1}), Reduction::mean), ShapeError);
  CHECK_THROWS_AS(loss(x, t.to(f32), Reduction::mean), DTypeError);
}

}  // namespace

TEST_CASE("l1, smooth l1 and huber losses", "[loss]") {
  const Tensor x = row({-3, -0.75, 0.2, 0.9, 2}), t = row({0.5, -0.5, 0.1, -0.4, 4.5});
  check_elements([](auto& a, auto& b, Reduction r) { return l1_loss(a, b, {r}); },
                 [](double a, double b) { return std::abs(a - b); }, x, t);
  for (const double width : {0.5, 1.0, 2.25}) {
    const auto huber = [=](double a, double b) {
      const double d = std::abs(a - b);
      return d < width ? d * d / 2 : width * (d - width / 2);
    };
    check_elements([=](auto& a, auto& b, Reduction r) { return huber_loss(a, b, {r, width}); }, huber, x, t);
    check_elements(
        [=](auto& a, auto& b, Reduction r) {
          return smooth_l1_loss(a, b, {r, width});
        },
        [=](double a, double b) { return huber(a, b) / width; }, x, t);
  }
  CHECK(values(smooth_l1_loss(x, t, {.beta = 0})) == values(l1_loss(x, t)));
  // At the corner the parabola's slope is the line's.
  Tensor corner = row({1, 0, -1}).set_requires_grad();
  huber_loss(corner, zeros({3}, {.dtype = f64}), {.reduction = Reduction::sum}).backward();
  CHECK(values(corner.grad()) == V{1, 0, -1});
  CHECK_THROWS_AS(huber_loss(x, t, {.delta = 0}), ValueError);
  CHECK_THROWS_AS(smooth_l1_loss(x, t, {.beta = -1}), ValueError);
}

TEST_CASE("binary cross-entropy of probabilities", "[loss]") {
  const Tensor p = row({0.1, 0.5, 0.9, 0.3, 0.7}), t = row({0, 1, 0.25, 0.5, 1});
  check_elements([](auto& a, auto& b, Reduction r) { return binary_cross_entropy(a, b, {.reduction = r}); },
                 [](double a, double b) { return -b * std::log(a) - (1 - b) * std::log(1 - a); }, p, t);
  const Tensor logits = log(p / (1 - p));
  CHECK(distance(binary_cross_entropy(p, t), bce_with_logits(logits, t)) < 1e-12);
  // A wrong and certain prediction costs 100, and its gradient is finite.
  Tensor sure = row({0, 1, 0, 1}).set_requires_grad();
  const Tensor truth = row({1, 0, 0, 1});
  const Tensor y = binary_cross_entropy(sure, truth, {.reduction = Reduction::none});
  CHECK(values(y) == V{100, 100, 0, 0});
  sum(y).backward();
  CHECK(values(sure.grad()) == V{-1e12, 1e12, 0, 0});
  const Tensor weight = row({1, 2, 0, 0.5, 3});
  CHECK(distance(binary_cross_entropy(p, t, {.weight = weight, .reduction = Reduction::none}),
                 weight * binary_cross_entropy(p, t, {.reduction = Reduction::none})) < 1e-15);
  CHECK_THROWS_AS(binary_cross_entropy(p, t, {.weight = row({1, 2})}), ShapeError);
}

TEST_CASE("Kullback-Leibler divergence", "[loss]") {
  const Tensor logs = row({-0.5, -1.5, -2, -0.1}), t = row({0.4, 0.3, 0.2, 0.1});
  check_elements([](auto& a, auto& b, Reduction r) { return kl_div(a, b, {.reduction = r}); },
                 [](double a, double b) { return b * (std::log(b) - a); }, logs, t);
  check_elements(
      [](auto& a, auto& b, Reduction r) { return kl_div(a, b, {.reduction = r, .log_target = true}); },
      [](double a, double b) { return std::exp(b) * (b - a); }, logs, log(t));
  CHECK(values(kl_div(logs, t * 0, {.reduction = Reduction::none})) == V(4, 0));
  const Tensor p = softmax(normal({3, 4}), 1), q = log_softmax(normal({3, 4}), 1);
  CHECK(distance(kl_div(q, p, {.batch_mean = true}), kl_div(q, p, {.reduction = Reduction::sum}) / 3) <
        1e-15);
  CHECK(kl_div(log(p), p).item() == Approx(0).margin(1e-15));
  CHECK_THROWS_AS(kl_div(logs[0], t[0], {.batch_mean = true}), ShapeError);
}

TEST_CASE("gaussian negative log-likelihood", "[loss]") {
  const Tensor x = normal({3, 4}), t = normal({3, 4}), var = exp(normal({3, 4}));
  const Tensor wanted = 0.5 * (log(var) + square(x - t) / var);
  CHECK(distance(gaussian_nll_loss(x, t, var, {.reduction = Reduction::none}), wanted) < 1e-14);
  CHECK(distance(gaussian_nll_loss(x, t, var), mean(wanted)) < 1e-14);
  CHECK(distance(gaussian_nll_loss(x, t, var, {.full = true}),
                 mean(wanted) + 0.5 * std::log(2 * std::numbers::pi)) < 1e-14);
  const Tensor rows = exp(normal({3}));
  CHECK(distance(gaussian_nll_loss(x, t, rows), gaussian_nll_loss(x, t, rows.unsqueeze(1).expand({3, 4}))) <
        1e-14);
  CHECK(distance(gaussian_nll_loss(x, t, rows.unsqueeze(1)), gaussian_nll_loss(x, t, rows)) == 0);
  CHECK(distance(gaussian_nll_loss(x, t, var * 0, {.eps = 0.5}), gaussian_nll_loss(x, t, var * 0 + 0.5)) <
        1e-14);
  CHECK(gradcheck([](auto& a, auto& b, auto& v) { return gaussian_nll_loss(a, b, v); }, {x, t, var}));
  CHECK_THROWS_AS(gaussian_nll_loss(x, t, normal({4})), ShapeError);
  CHECK_THROWS_AS(gaussian_nll_loss(x, t, var, {.eps = 0}), ValueError);
}

TEST_CASE("cosines and losses of pairs and triplets", "[loss]") {
  const Tensor a = normal({5, 3}), b = normal({5, 3}), c = normal({5, 3});
  const Tensor cosine = sum(a * b, {1}) / (norm(a, 2, {1}) * norm(b, 2, {1}));
  CHECK(distance(cosine_similarity(a, b), cosine) < 1e-14);
  CHECK(distance(cosine_similarity(a.t(), b.t(), {.axis = 0}), cosine) < 1e-14);
  CHECK(cosine_similarity(a.unsqueeze(1), b, {.axis = -1}).shape() == Shape{5, 5});
  CHECK(values(cosine_similarity(a * 0, b)) == V(5, 0));
  CHECK(gradcheck([](auto& x, auto& y) { return cosine_similarity(x, y); }, {a, b}));
  CHECK_THROWS_AS(cosine_similarity(a, b, {.eps = 0}), ValueError);

  const Tensor target = from_vector<std::int64_t>({1, -1, 1, -1, 0}, {5});
  const V got = values(cosine_embedding_loss(a, b, target, {.margin = 0.2, .reduction = Reduction::none}));
  const V cosines = values(cosine);
  for (std::size_t i : {0u, 2u}) CHECK(got[i] == Approx(1 - cosines[i]));
  for (std::size_t i : {1u, 3u}) CHECK(got[i] == Approx(std::max(cosines[i] - 0.2, 0.0)).margin(1e-15));
  CHECK(got[4] == 0);
  CHECK(cosine_embedding_loss(a[0], b[0], target[0]).item() == Approx(1 - cosines[0]));
  CHECK(gradcheck([](auto& x, auto& y, auto& t) { return cosine_embedding_loss(x, y, t); }, {a, b, target}));
  CHECK_THROWS_AS(cosine_embedding_loss(a, b, target.narrow(0, 0, 4)), ShapeError);
  CHECK_THROWS_AS(cosine_embedding_loss(normal({2, 5, 3}), normal({2, 5, 3}), target), ShapeError);

  CHECK(distance(pairwise_distance(a, b), norm(a - b + 1e-6, 2, {1})) == 0);
  CHECK(pairwise_distance(a, b, {.p = 1, .keepdim = true}).shape() == Shape{5, 1});
  const Tensor d_ab = pairwise_distance(a, b), d_ac = pairwise_distance(a, c), d_bc = pairwise_distance(b, c);
  const auto triplet = [&](TripletMarginLossOptions o) { return triplet_margin_loss(a, b, c, o); };
  CHECK(distance(triplet({.margin = 0.5, .reduction = Reduction::none}), clamp(d_ab - d_ac + 0.5, 0)) <
        1e-14);
  CHECK(distance(triplet({.swap = true}), mean(clamp(d_ab - minimum(d_ac, d_bc) + 1, 0))) < 1e-14);
  CHECK(gradcheck([](auto& x, auto& y, auto& z) { return triplet_margin_loss(x, y, z, {.margin = 3}); },
                  {a, b, c}));
  CHECK_THROWS_AS(triplet({.margin = 0}), ValueError);
  CHECK_THROWS_AS(triplet_margin_loss(a, b, normal({5, 4})), ShapeError);
  CHECK_THAT(message_of<ShapeError>([&] {
               triplet_margin_loss(a, b, normal({5, 4}));
             }),
             Contains("f64[5, 4]"));
}

TEST_CASE("second derivatives of losses hold where a branch begins", "[loss][second_order]") {
  const Tensor t = zeros({4}, {.dtype = f64}), x = row({0, 3, -0.5, -4});
  const auto diagonal = [&](const auto& loss) {
    const Tensor h = hessian([&](const Tensor& v) { return loss(v); }, x);
    CHECK(sum(abs(h)).item() == Approx(sum(abs(h.diagonal())).item()));
    return values(h.diagonal());
  };
  CHECK(diagonal([&](const Tensor& v) { return huber_loss(v, t, {.reduction = Reduction::sum}); }) ==
        V{1, 0, 1, 0});
  CHECK(diagonal([&](const Tensor& v) {
          return smooth_l1_loss(v, t, {.reduction = Reduction::sum, .beta = 2});
        }) == V{0.5, 0, 0.5, 0});
  // With all rows ignored the loss is a NaN and its gradient 0, recorded or not.
  const Tensor scores = zeros({2, 3}).requires_grad_(), ignored = full({2}, -100, {.dtype = i64});
  for (const Tensor& loss : {cross_entropy(scores, ignored), nll_loss(scores, ignored)})
    for (const bool recorded : {false, true})
      CHECK(values(grad({loss}, {scores}, {}, {.retain_graph = true, .create_graph = recorded})[0]) ==
            V(6, 0));
}

TEST_CASE("cosines of what broadcasts along the axis are those of whole vectors", "[loss]") {
  const Tensor a = normal({4, 3}), b = normal({4, 1});
  CHECK(distance(cosine_similarity(a, b), cosine_similarity(a, b.expand({4, 3}))) < 1e-15);
  CHECK(distance(cosine_similarity(row({2}), a, {.axis = 0}),
                 cosine_similarity(ones({4, 3}, {.dtype = f64}), a, {.axis = 0})) < 1e-15);
  CHECK(max(abs(cosine_similarity(ones({4, 1}), ones({4, 3})))).item() <= 1 + 1e-6);
  CHECK(gradcheck([](auto& x, auto& y) { return cosine_similarity(x, y); }, {a, b}));
}

TEST_CASE("small constants of losses count in 16 bits", "[loss]") {
  for (const DType dtype : {f16, bf16}) {
    INFO(dtype);
    const Tensor none = zeros({2, 4}, {.dtype = dtype}), one = ones({2, 4}, {.dtype = dtype});
    const auto same = [&](const auto& f) {
      const Tensor none32 = none.to(f32), one32 = one.to(f32), got = f(none, one), want = f(none32, one32);
      CHECK(got.dtype() == dtype);
      CHECK(values(got) == values(want.to(dtype)));
    };
    same([](auto& a, auto& b) { return cosine_similarity(a, b); });
    same([](auto& a, auto& b) {
      return cosine_embedding_loss(a, b, ones({2}), {.reduction = Reduction::none});
    });
    same([](auto& a, auto& b) { return smooth_l1_loss(a, b, {.reduction = Reduction::none, .beta = 1e-9}); });
    same([](auto& a, auto&) { return pairwise_distance(a, a, {.eps = 1e-5}); });
    same([](auto& a, auto& b) {
      return gaussian_nll_loss(a, b, b * 0, {.reduction = Reduction::none, .eps = 1e-4});
    });
  }
}
