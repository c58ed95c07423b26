#include <cotangent/cotangent.h>

#include <limits>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {
using V = std::vector<double>;
using I = std::vector<std::int64_t>;
using testing::ids;
using testing::values;
}  // namespace

TEST_CASE("topk gives the largest first, of equal ones the first", "[topk]") {
  const Tensor x = tensor({{1.f, 5.f, 3.f, 5.f}, {-1.f, -0.f, 0.f, -2.f}}).to(GENERATE(f32, f64));
  const auto [v, i] = topk(x, 3);
  CHECK(v.shape() == Shape{2, 3});
  CHECK(values(v) == V{5, 5, 3, 0, 0, -1});
  CHECK(ids(i) == I{1, 3, 2, 1, 2, 0});
  const auto columns = topk(x, 1, 0);
  CHECK(columns.values.shape() == Shape{1, 4});
  CHECK(values(columns.values) == V{1, 5, 3, 5});
  CHECK(ids(columns.indices) == I{0, 0, 0, 0});
  CHECK(topk(x, 0).values.shape() == Shape{2, 0});
}

TEST_CASE("topk of infinities, NaN and integers", "[topk]") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const DType dtype : {f32, f64})
    CHECK(ids(topk(tensor({inf, NAN, -inf, 2.f, NAN}).to(dtype), 5).indices) == I{1, 4, 0, 3, 2});
  CHECK(ids(topk(tensor({std::int64_t{-3}, std::int64_t{7}, INT64_MIN, INT64_MAX}), 4).indices) ==
        I{3, 1, 0, 2});
  CHECK(values(topk(tensor({3, -5, 9}).to(i32), 2).values) == V{9, 3});
  CHECK(values(topk(tensor({200, 0, 9}).to(u8), 3).values) == V{200, 9, 0});
}

TEST_CASE("topk is the beginning of a sort, however few are chosen of however many", "[topk]") {
  for (const DType dtype : {f32, bf16, i64, u8})
    for (const std::int64_t n : {8, 63, 64, 65, 500, 3001})
      for (const std::int64_t k : {std::int64_t{1}, n / 8, n / 8 + 1, n / 2}) {
        // Rows of normal numbers, of few different ones, and rows that only rise or fall.
        Tensor x = concat(
            {randn({3, n}) * 20.0 + 100.0, randint(0, 5, {3, n}).to(f32),
             arange(0, n).to(f32).expand({1, n}) % 200.0, arange(n, 0, -1).to(f32).expand({1, n}) % 200.0},
            0);
        if (is_floating(dtype)) x.slice(0, 1, 2).slice(1, n / 2, n / 2 + 3).fill_(NAN);
        x = x.to(dtype);
        for (const bool largest : {true, false})
          for (const bool across : {false, true}) {
            INFO(name(dtype) << " n " << n << " k " << k << " largest " << largest << " across " << across);
            const Tensor y = across ? x.t().contiguous() : x;
            const int axis = across ? 0 : 1;
            const auto [v, i] = topk(y, k, axis, largest);
            const auto all = sort(y, axis, largest);
            CHECK(ids(i) == ids(all.indices.slice(axis, 0, k)));
            CHECK(equal(nan_to_num(v), nan_to_num(all.values.slice(axis, 0, k))));
          }
      }
}

TEST_CASE("the gradient of topk goes to the elements chosen", "[topk]") {
  const DType dtype = GENERATE(f32, f64);
  Tensor x = tensor({{1.f, 5.f, 3.f}, {9.f, 2.f, 4.f}}).to(dtype).set_requires_grad();
  const auto [v, i] = topk(x, 2);
  CHECK_FALSE(i.requires_grad());
  v.backward(tensor({{1.f, 2.f}, {3.f, 4.f}}).to(dtype));
  CHECK(values(x.grad()) == V{0, 1, 2, 3, 0, 4});
}

TEST_CASE("topk refuses what does not fit", "[topk]") {
  CHECK_THROWS_WITH(topk(zeros({2, 3}), 4),
                    "[topk] k is 4, x is f32[2, 3]; k must lie in [0, 3], the size along axis -1");
  CHECK_THROWS_AS(topk(zeros({}), 1), ShapeError);
  CHECK_THROWS_AS(topk(zeros({2, 3}).to(boolean), 1), DTypeError);
}

TEST_CASE("topk on the GPU equals topk on the CPU", "[topk][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16, i64, i32, u8})
    for (const auto& [n, k] : {std::pair{7, 7}, {50257, 50}, {50257, 1}, {5000, 4999}, {100000, 70000}}) {
      // Many equal ones in the narrow types.
      const Tensor x = (randn({3, n}) * 40.0 + 100.0).to(dtype);
      const auto want = topk(x, k), got = topk(x.to(cuda(0)), k);
      CHECK(ids(got.indices) == ids(want.indices));
      CHECK(values(got.values) == values(want.values));
    }
  const Tensor x = randn({4, 300, 5}).to(cuda(0));
  CHECK(ids(topk(x, 20, 1).indices) == ids(topk(x.to(cpu), 20, 1).indices));
}
