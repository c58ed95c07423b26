#include <cotangent/nn/init.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include <cotangent/core/base/rng.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/nn/linear.h>
#include <cotangent/ops.h>

#include "tests/catch.h"
#include "tests/nn_testing.h"

using namespace ct;
namespace init = ct::nn::init;
using ct::testing::bytes_of;

namespace {

struct Moments {
  double mean = 0, std = 0, low = 0, high = 0;
};

Moments moments(const Tensor& t) {
  const std::vector<double> v = t.to_vector<double>();
  const double n = static_cast<double>(v.size());
  Moments m;
  for (double x : v) m.mean += x / n;
  for (double x : v) m.std += (x - m.mean) * (x - m.mean) / n;
  m.std = std::sqrt(m.std);
  m.low = *std::min_element(v.begin(), v.end());
  m.high = *std::max_element(v.begin(), v.end());
  return m;
}

}  // namespace

TEST_CASE("init: distributions have the moments of their formulas", "[nn]") {
  manual_seed(11);
  const Tensor t = zeros({200, 300, 2});  // fan_in 600, fan_out 400
  // 120000 draws: the mean is within 4 standard errors, the deviation within 1 % .
  const auto check = [&](double mean, double std, double low, double high) {
    const Moments m = moments(t);
    CHECK(std::abs(m.mean - mean) < 4 * std / std::sqrt(120000.0));
    CHECK(m.std == Approx(std).epsilon(0.01));
    CHECK(m.low >= low);
    CHECK(m.high <= high);
    if (std::isfinite(low)) CHECK(m.low < low + 0.01 * (high - low));
    if (std::isfinite(high)) CHECK(m.high > high - 0.01 * (high - low));
  };
  const double inf = INFINITY, uniform_std = 1 / std::sqrt(12.0);
  init::uniform_(t, -1, 3);
  check(1, 4 * uniform_std, -1, 3);
  init::normal_(t, 2, 0.5);
  check(2, 0.5, -inf, inf);
  // The standard normal distribution between -2 and 2 has the deviation 0.87962566.
  init::trunc_normal_(t);
  check(0, 0.87962566, -2, 2);
  init::trunc_normal_(t, 1, 2, -3, 5);
  check(1, 2 * 0.87962566, -3, 5);
  double bound = std::sqrt(6.0 / 1000);
  init::xavier_uniform_(t);
  check(0, 2 * bound * uniform_std, -bound, bound);
  init::xavier_normal_(t, 2);
  check(0, 2 * std::sqrt(2.0 / 1000), -inf, inf);
  bound = std::sqrt(2.0) * std::sqrt(3.0 / 600);
  init::kaiming_uniform_(t, {.nonlinearity = init::Nonlinearity::relu});
  check(0, 2 * bound * uniform_std, -bound, bound);
  init::kaiming_normal_(t, {.a = 1, .mode = init::FanMode::fan_out});
  check(0, 1 / std::sqrt(400.0), -inf, inf);
  init::constant_(t, 1.5);
  CHECK(moments(t).low == 1.5);
  CHECK(moments(t).high == 1.5);

  const nn::Linear layer(400, 300);
  CHECK(moments(layer.weight()).high <= 0.05);
  CHECK(moments(layer.weight()).high > 0.0499);
  CHECK(moments(layer.bias()).high <= 0.05);
  CHECK(moments(layer.bias()).low < -0.04);
}

TEST_CASE("init: gains", "[nn]") {
  using enum init::Nonlinearity;
  CHECK(init::gain(linear) == 1);
  CHECK(init::gain(init::Nonlinearity::sigmoid) == 1);
  CHECK(init::gain(init::Nonlinearity::tanh) == 5.0 / 3);
  CHECK(init::gain(init::Nonlinearity::relu) == std::numbers::sqrt2);
  CHECK(init::gain(init::Nonlinearity::leaky_relu, 0) == std::numbers::sqrt2);
  CHECK(init::gain(init::Nonlinearity::leaky_relu, std::sqrt(5.0)) ==
        Approx(std::sqrt(1 / 3.0)).epsilon(1e-15));
  CHECK(init::gain(selu) == 0.75);
}

TEST_CASE("init: truncated normal follows its distribution function", "[nn]") {
  // The share of values below x must be (Phi(x) - Phi(low)) / (Phi(high) - Phi(low)); Kolmogorov and
  // Smirnov's distance is below 1.95 / sqrt(n) with a probability of 99.9 %.
  manual_seed(12);
  const Tensor t = empty({50000}, {.dtype = f64});
  init::trunc_normal_(t, 0, 1, -0.5, 6);
  std::vector<double> v = t.to_vector<double>();
  std::sort(v.begin(), v.end());
  const auto phi = [](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); };
  double distance = 0;
  for (std::size_t i = 0; i < v.size(); ++i)
    distance = std::max(distance, std::abs((phi(v[i]) - phi(-0.5)) / (phi(6) - phi(-0.5)) -
                                           static_cast<double>(i) / static_cast<double>(v.size())));
  CHECK(distance < 1.95 / std::sqrt(50000.0));
}

TEST_CASE("init: orthogonal rows or columns", "[nn]") {
  manual_seed(13);
  for (const Shape& shape : {Shape{5, 5}, Shape{7, 3}, Shape{3, 7}, Shape{4, 2, 3}, Shape{1, 1},
                             Shape{40, 70}, Shape{70, 40}, Shape{80, 80}}) {
    const Tensor t = empty(shape, {.dtype = f64});
    manual_seed(13);
    init::orthogonal_(t, 2);
    const std::int64_t rows = shape[0], columns = t.numel() / rows;
    const std::vector<double> q = t.to_vector<double>();
    const bool by_rows = rows <= columns;
    const std::int64_t n = by_rows ? rows : columns, length = by_rows ? columns : rows;
    const auto at = [&](std::int64_t vector, std::int64_t i) {
      return q[static_cast<std::size_t>(by_rows ? vector * columns + i : i * columns + vector)];
    };
    for (std::int64_t a = 0; a < n; ++a) {
      for (std::int64_t b = 0; b < n; ++b) {
        double dot = 0;
        for (std::int64_t i = 0; i < length; ++i) dot += at(a, i) * at(b, i);
        CHECK(dot == Approx(a == b ? 4 : 0).margin(1e-14));
      }
    }
    // The result is Q of the normal matrix that the generator draws: Q^T times that is a triangle with a positive
    // diagonal.
    manual_seed(13);
    std::vector<double> normal(q.size());
    fill_normal(default_generator().reserve(), 0, t.numel(), normal.data());
    for (std::int64_t a = 0; a < n; ++a) {
      for (std::int64_t b = 0; b <= a; ++b) {
        double r = 0;
        for (std::int64_t i = 0; i < length; ++i) r += at(a, i) * normal[static_cast<std::size_t>(i * n + b)];
        CHECK((a == b ? r > 0 : std::abs(r) < 1e-12));
      }
    }
  }
}

TEST_CASE("init: the same values for any number of threads, views, 16-bit types", "[nn]") {
  const auto draw = [](const Tensor& t) {
    manual_seed(14);
    init::normal_(t);
    return t;
  };
  const int threads = num_threads();
  set_num_threads(1);
  const std::string one = bytes_of(draw(empty({100000})));
  set_num_threads(4);
  CHECK(bytes_of(draw(empty({100000}))) == one);
  set_num_threads(threads);

  const Tensor base = zeros({3, 2});
  const Tensor view = draw(base.transpose(0, 1));
  CHECK(view.to_vector<float>() == draw(empty({2, 3})).to_vector<float>());
  CHECK(draw(empty({6}, {.dtype = f16})).to_vector<float>() == draw(empty({6})).to(f16).to_vector<float>());
  Tensor leaf = zeros({3}).set_requires_grad();
  init::ones_(leaf);
  CHECK(leaf.is_leaf());
  CHECK(leaf.to_vector<float>() == std::vector<float>{1, 1, 1});
  init::uniform_(empty({0, 3}));
}

TEST_CASE("init: a draw is multiplied and then added to, with two roundings on every machine", "[nn]") {
  const auto check = [](const auto& init, const auto& draw, auto scale, auto shift) {
    using T = decltype(scale);
    const Tensor t = empty({999}, {.dtype = dtype_of<T>});
    manual_seed(15);
    init(t);
    manual_seed(15);
    const std::vector<T> got = t.to_vector<T>(), drawn = draw(t).template to_vector<T>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const volatile T product = drawn[i] * scale;
      wrong += got[i] != product + shift;
    }
    CHECK(wrong == 0);
  };
  const auto uniform = [](const Tensor& t) { init::uniform_(t, -0.1, 0.2); };
  const auto normal = [](const Tensor& t) { init::normal_(t, 1.5, 0.1); };
  const auto rand_of = [](const Tensor& t) { return rand_like(t); };
  const auto randn_of = [](const Tensor& t) { return randn_like(t); };
  check(uniform, rand_of, 0.2 + 0.1, -0.1);
  check(uniform, rand_of, static_cast<float>(0.2 + 0.1), -0.1f);
  check(normal, randn_of, 0.1, 1.5);
  check(normal, randn_of, 0.1f, 1.5f);
}

TEST_CASE("init: initialisers are calls of ops", "[nn]") {
  struct Names final : Tracer {
    bool begin(const KernelCall& call) override { return all += std::string(call.op.name) + ' ', false; }
    void end(const KernelCall&) override {}
    std::string all;
  };
  const auto names_of = [](const auto& init) {
    const Tensor t = zeros({40, 3}), low = zeros({40, 3}, {.dtype = f16});
    Names names;
    const TracerScope scope(names);
    init(t), names.all += "| ", init(low);
    return names.all;
  };
  CHECK(names_of([](const Tensor& t) { init::constant_(t, 2); }) == "fill | fill assign ");
  CHECK(names_of([](const Tensor& t) { init::kaiming_uniform_(t); }) ==
        "draw mul_scalar add_scalar | draw mul_scalar add_scalar assign ");
  CHECK(names_of([](const Tensor& t) { init::trunc_normal_(t); }) ==
        "draw truncated | draw truncated assign ");
  CHECK_THAT(names_of([](const Tensor& t) { init::orthogonal_(t); }),
             Catch::Matchers::StartsWith("draw copy orthonormalize "));
}

TEST_CASE("init: errors", "[nn]") {
  CHECK_THROWS_AS(init::uniform_(zeros({2}), 1, 0), ValueError);
  CHECK_THROWS_AS(init::normal_(zeros({2}), 0, -1), ValueError);
  CHECK_THROWS_AS(init::trunc_normal_(zeros({2}), 0, 1, 2, -2), ValueError);
  CHECK_THROWS_AS(init::kaiming_uniform_(zeros({2})), ShapeError);
  CHECK_THROWS_AS(init::xavier_normal_(zeros({2})), ShapeError);
  CHECK_THROWS_AS(init::orthogonal_(zeros({2})), ShapeError);
  CHECK_THROWS_AS(init::constant_(zeros({2}, {.dtype = i64}), 1), DTypeError);
}

TEST_CASE("trunc_normal_ has the moments of its tail, wherever the bounds lie", "[init]") {
  struct Case {
    double low, high, mean, std;  // of the distribution that is cut off there
  };
  // Moments, by the integrals of x^n exp(-x^2 / 2) between the bounds.
  for (const Case& c : {Case{-2, 2, 0, 0.879626},
                        {1, 3, 1.510050, 0.416477},
                        {5, 6, 5.183147, 0.171617},
                        {9, 10, 9.108456, 0.106999},
                        {20, 1e300, 20.049753, 0.0496312},
                        {36, 40, 36.027735, 0.0277138},
                        {60, 61, 60.016657, 0.0166528}})
    for (const bool mirrored : {false, true})
      for (const DType dtype : {f64, f32}) {
        manual_seed(5);
        const Tensor t = empty({40000}, {.dtype = dtype});
        mirrored ? init::trunc_normal_(t, 0, 1, -c.high, -c.low)
                 : init::trunc_normal_(t, 0, 1, c.low, c.high);
        const Tensor x = (mirrored ? -t : t).to(f64);
        INFO(c.low << " to " << c.high << ", mirrored " << mirrored << ", " << dtype);
        CHECK(min(x).item<double>() >= c.low);
        CHECK(max(x).item<double>() <= c.high);
        CHECK(mean(x).item<double>() == Approx(c.mean).margin(0.03 * c.std));
        CHECK(x.std().item<double>() == Approx(c.std).epsilon(0.03));
      }
}
