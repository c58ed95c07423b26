#include <cotangent/cotangent.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {
using I = std::vector<std::int64_t>;
using testing::ids;

// Counts of each position among 60000 draws from one row of logits.
std::vector<double> counts(std::initializer_list<float> row, const SampleOptions& options) {
  Generator generator(5);
  const Tensor x = from_vector(std::vector<float>(row), {static_cast<std::int64_t>(row.size())});
  std::vector<double> count(row.size());
  for (const std::int64_t id : ids(sample_logits(x.expand({60000, x.numel()}), options, generator)))
    count[static_cast<std::size_t>(id)] += 1;
  return count;
}
void check_share(const std::vector<double>& count, std::initializer_list<double> shares) {
  std::size_t i = 0;
  for (const double p : shares) {
    CAPTURE(i);
    if (p == 0)
      CHECK(count[i] == 0);
    else
      CHECK(std::abs(count[i] - 60000 * p) < 5 * std::sqrt(60000 * p * (1 - p)) + 1e-9);
    ++i;
  }
}

const float ln2 = std::log(2.f), ln3 = std::log(3.f);

}  // namespace

TEST_CASE("sample_logits draws from softmax", "[sampling]") {
  check_share(counts({0, ln2, ln3, 0}, {}), {1 / 7.0, 2 / 7.0, 3 / 7.0, 1 / 7.0});
  // At half the temperature the weights are squared.
  check_share(counts({0, ln2, ln3}, {.temperature = 0.5}), {1 / 14.0, 4 / 14.0, 9 / 14.0});
  const float inf = std::numeric_limits<float>::infinity();
  check_share(counts({-inf, 0, 0}, {}), {0, 0.5, 0.5});
}

TEST_CASE("sample_logits keeps the top k and the top p", "[sampling]") {
  check_share(counts({0, ln2, ln3, 0}, {.top_k = 2}), {0, 0.4, 0.6, 0});
  check_share(counts({0, ln2, ln3, 0}, {.top_k = 3}), {1 / 7.0, 2 / 7.0, 3 / 7.0, 1 / 7.0});  // two equal
  check_share(counts({0, ln2, ln3, 0}, {.top_k = 1}), {0, 0, 1, 0});
  // Probabilities 1/7, 2/7, 3/7, 1/7: 3/7 is less than a half, with 2/7 it is enough.
  check_share(counts({0, ln2, ln3, 0}, {.top_p = 0.5}), {0, 0.4, 0.6, 0});
  check_share(counts({0, ln2, ln3, 0}, {.top_p = 0.4}), {0, 0, 1, 0});
  check_share(counts({0, ln2, ln3, 0}, {.top_p = 0.99}), {1 / 7.0, 2 / 7.0, 3 / 7.0, 1 / 7.0});
  // The larger of the two that are left has 0.6.
  check_share(counts({0, ln2, ln3, 0}, {.top_k = 2, .top_p = 0.55}), {0, 0, 1, 0});
}

TEST_CASE("sample_logits draws the same by its plain kernel, which is the CPU's in f64", "[sampling]") {
  // Whole numbers: many are equal to the k-th largest and to the last that top_p needs.
  const Tensor x = (randn({300, 40}) * 3.0).to(i32).to(f32);
  for (const SampleOptions& options : {SampleOptions{},
                                       {.temperature = 0},
                                       {.temperature = 0.7, .top_k = 7},
                                       {.top_p = 0.6},
                                       {.temperature = 1.2, .top_k = 20, .top_p = 0.8}}) {
    const auto draws = [&](DType dtype) {
      Generator generator(11);
      return ids(sample_logits(x.to(dtype), options, generator));
    };
    CHECK(draws(f64) == draws(f32));
  }
}

TEST_CASE("sample_logits at temperature 0 takes the first of the largest", "[sampling]") {
  const Tensor x = tensor({{1.f, 3.f, 3.f}, {-1.f, -2.f, -3.f}});
  CHECK(ids(sample_logits(x, {.temperature = 0})) == I{1, 0});
  Generator generator(1);
  sample_logits(x, {.temperature = 0}, generator);
  CHECK(generator.offset() == 0);  // nothing is drawn
  sample_logits(x, {}, generator);
  CHECK(generator.offset() == 1);
  CHECK(sample_logits(x).shape() == Shape{2});
  CHECK(sample_logits(x[0]).shape() == Shape{});
  CHECK_FALSE(sample_logits(x.clone().set_requires_grad()).requires_grad());
  // A temperature so small that all but the largest vanish.
  CHECK(ids(sample_logits(tensor({{1.f, 3.f, 2.f}}), {.temperature = 1e-300})) == I{1});
}

TEST_CASE("sample_logits refuses what can't be drawn", "[sampling]") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK_THROWS_WITH(
      sample_logits(tensor({{1.f, NAN}})),
      "[sample_logits] row 0 of the logits has a NaN or +inf, or nothing but -inf; look for what "
      "diverged");
  for (const DType dtype : {f32, f64}) {
    CHECK_THROWS_AS(sample_logits(tensor({1.f, NAN}).to(dtype)), ValueError);
    CHECK_THROWS_AS(sample_logits(tensor({1.f, inf}).to(dtype)), ValueError);
    CHECK_THROWS_AS(sample_logits(tensor({-inf, -inf}).to(dtype)), ValueError);
  }
  CHECK_THROWS_AS(sample_logits(zeros({2}), {.temperature = -1}), ValueError);
  CHECK_THROWS_AS(sample_logits(zeros({2}), {.top_p = 0}), ValueError);
  CHECK_THROWS_AS(sample_logits(zeros({})), ShapeError);
}

TEST_CASE("sample_logits that fails draws nothing", "[sampling]") {
  Generator generator(1);
  CHECK_THROWS_AS(sample_logits(zeros({}), {}, generator), ShapeError);
  CHECK_THROWS_AS(sample_logits(tensor({1.f, NAN}), {}, generator), ValueError);
  CHECK(generator.offset() == 0);
  sample_logits(zeros({2}), {}, generator);
  CHECK(generator.offset() == 1);
}

TEST_CASE("sample_logits draws the same on the GPU", "[sampling][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const std::int64_t n : {1, 7, 513, 50257}) {
      const Tensor x = randn({17, n}, {.dtype = dtype}) * 3.0;
      for (const SampleOptions& options : {SampleOptions{},
                                           {.temperature = 0},
                                           {.temperature = 0.7, .top_k = 50},
                                           {.top_p = 0.9},
                                           {.temperature = 1.2, .top_k = 400, .top_p = 0.8}}) {
        const auto draws = [&](Device device) {
          Generator generator(11);
          return ids(sample_logits(x.to(device), options, generator));
        };
        CHECK(draws(cuda(0)) == draws(cpu));
      }
    }
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor bad = tensor({{1.f, NAN}, {inf, 0.f}, {-inf, -inf}, {0.f, -inf}}).to(cuda(0));
  CHECK(ids(sample_logits(bad)) == I{-1, -1, -1, 0});
}
