#include <cotangent/cotangent.h>

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;
using Catch::Contains;

namespace {
using V = std::vector<double>;
using I = std::vector<std::int64_t>;
using testing::ids;
using testing::values;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("sort keeps equal elements in their order, in every dtype", "[sort]") {
  for (const DType dtype : {f32, f64, f16, bf16, i64, i32, u8}) {
    const Tensor x = tensor({{3, 1, 2, 1}, {0, 9, 0, 5}}).to(dtype);
    const auto [v, i] = sort(x);
    CHECK(v.dtype() == dtype);
    CHECK(values(v) == V{1, 1, 2, 3, 0, 0, 5, 9});
    CHECK(ids(i) == I{1, 3, 2, 0, 0, 2, 3, 1});
    const auto down = sort(x, -1, true);
    CHECK(values(down.values) == V{3, 2, 1, 1, 9, 5, 0, 0});
    CHECK(ids(down.indices) == I{0, 2, 1, 3, 1, 3, 0, 2});
    CHECK(ids(argsort(x, 0)) == I{1, 0, 1, 0, 0, 1, 0, 1});
  }
  CHECK(ids(argsort(tensor({true, false, true, false}), 0)) == I{1, 3, 0, 2});
  CHECK(values(sort(tensor(5.)).values) == V{5});
  CHECK(ids(sort(tensor(5.)).indices) == I{0});
  CHECK(sort(zeros({0})).values.shape() == Shape{0});
}

TEST_CASE("sort of NaN, infinities, zeros and the ends of integers", "[sort]") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    const Tensor x = tensor({kInf, kNan, -kInf, -0., 0., kNan, -1.}).to(dtype);
    CHECK(ids(argsort(x)) == I{2, 6, 3, 4, 0, 1, 5});
    CHECK(ids(argsort(x, 0, true)) == I{1, 5, 0, 3, 4, 6, 2});
    CHECK(std::signbit(values(sort(x).values)[2]));
  }
  CHECK(ids(argsort(tensor({INT64_MAX, std::int64_t{0}, INT64_MIN}))) == I{2, 1, 0});
}

TEST_CASE("topk of the smallest, along any axis", "[sort]") {
  const Tensor x = tensor({{3., 1., kNan}, {2., 1., 0.}, {-1., 7., 5.}});
  const auto [v, i] = topk(x, 2, 0, false);
  CHECK(values(v) == V{-1, 1, 0, 2, 1, 5});
  CHECK(ids(i) == I{2, 0, 1, 1, 1, 2});
  CHECK(ids(topk(x, 2, -1, false, false).indices) == I{1, 0, 2, 1, 0, 2});
}

TEST_CASE("long rows are sorted by their digits", "[sort]") {
  const std::int64_t n = 70001;
  const int threads = num_threads();
  for (const DType dtype : {f32, f16, i64, i32, u8}) {
    const Tensor x = (randn({n}) * 50.0 + 100.0).to(dtype);
    for (const bool descending : {false, true}) {
      set_num_threads(4);
      const auto [v, i] = sort(x, 0, descending);
      set_num_threads(1);
      CHECK(equal(sort(x, 0, descending).indices, i));
      CHECK(equal(index_select(x, 0, i), v));
      const Tensor a = v.narrow(0, 0, n - 1), b = v.narrow(0, 1, n - 1);
      const Tensor tie = eq(a, b), later = gt(i.narrow(0, 1, n - 1), i.narrow(0, 0, n - 1));
      CHECK(all(logical_or(descending ? gt(a, b) : lt(a, b), logical_and(tie, later))).item<bool>());
    }
  }
  set_num_threads(threads);
}

TEST_CASE("the gradient of sort goes back to where values were", "[sort]") {
  for (const DType dtype : {f32, f64}) {
    Tensor x = tensor({{3., 1., 2.}, {0., 5., 4.}}).to(dtype).set_requires_grad();
    const Tensor g = tensor({{1., 10., 100.}, {2., 20., 200.}}).to(dtype);
    sort(x).values.backward(g);
    CHECK(values(x.grad()) == V{100, 1, 10, 2, 200, 20});
  }
}

TEST_CASE("kthvalue and median", "[sort]") {
  const Tensor x = tensor({{4., 1., 3., 2.}, {7., 7., 5., kNan}});
  CHECK(values(kthvalue(x, 2).values) == V{2, 7});
  CHECK(ids(kthvalue(x, 2, 1, true).indices) == I{3, 0});
  CHECK(kthvalue(x, 2, 1, true).values.shape() == Shape{2, 1});
  CHECK_THROWS_WITH(kthvalue(x, 5), Contains("k must lie in [1, 4]"));
  const auto [v, i] = median(x, 1);
  CHECK(values(v)[0] == 2);
  CHECK(std::isnan(values(v)[1]));
  CHECK(ids(i) == I{3, 3});
  CHECK(values(median(x, 0, true).values).size() == 4);
  CHECK(std::isnan(median(x).item()));
  CHECK(median(tensor({5, 1, 4})).item<int>() == 4);
  CHECK(median(tensor(3.)).item() == 3);
  CHECK(std::isnan(median(zeros({0})).item()));
  CHECK_THROWS_AS(median(zeros({2, 0}), 1), ShapeError);
  const Tensor y = tensor({4., 1., 3., 2.}).set_requires_grad();
  CHECK(values(grad({median(y)}, {y})[0]) == V{0, 0, 0, 1});
  CHECK(values(grad({kthvalue(y, 3).values}, {y})[0]) == V{0, 0, 1, 0});
}

TEST_CASE("unique gives values, their numbers and counts", "[sort]") {
  const Tensor x = tensor({{3, 1, 3}, {2, 1, 3}});
  const Unique u = unique(x, true, true, true);
  CHECK(ids(u.values) == I{1, 2, 3});
  CHECK(u.inverse.shape() == x.shape());
  CHECK(ids(u.inverse) == I{2, 0, 2, 1, 0, 2});
  CHECK(ids(u.counts) == I{2, 1, 3});
  CHECK_FALSE(unique(x).inverse.defined());
  CHECK(unique(tensor({kNan, 1., kNan, -0., 0.})).values.numel() == 4);
  CHECK(unique(tensor({true, false, true})).values.to_vector<bool>() == std::vector<bool>{false, true});
  CHECK(ids(unique(tensor(7), true, true, true).counts) == I{1});
  const Unique none = unique(zeros({0}), true, true, true);
  CHECK((none.values.numel() == 0 && none.inverse.numel() == 0 && none.counts.numel() == 0));
  const Unique runs = unique_consecutive(tensor({1, 1, 2, 2, 2, 1}), true, true);
  CHECK(ids(runs.values) == I{1, 2, 1});
  CHECK(ids(runs.inverse) == I{0, 0, 1, 1, 1, 2});
  CHECK(ids(runs.counts) == I{2, 3, 1});
}

TEST_CASE("unique along an axis compares slices, element by element", "[sort]") {
  const DType dtype = GENERATE(f32, f64, f16, bf16, i64, i32, u8);
  const Tensor x = tensor({{2, 1, 0}, {1, 5, 0}, {2, 0, 9}, {1, 5, 0}, {2, 0, 9}}).to(dtype);
  const Unique rows = unique(x, true, true, true, 0);
  CHECK(rows.values.dtype() == dtype);
  CHECK(equal(rows.values, tensor({{1, 5, 0}, {2, 0, 9}, {2, 1, 0}}).to(dtype)));
  CHECK(ids(rows.inverse) == I{2, 0, 1, 0, 1});
  CHECK(ids(rows.counts) == I{2, 2, 1});
  CHECK(equal(unique(x.t(), true, false, false, -1).values, rows.values.t()));
  CHECK(equal(unique(x.unsqueeze(0), true, false, false, 1).values, rows.values.unsqueeze(0)));
  const Tensor twice = index_select(x, 0, tensor({1, 3, 0, 2, 4, 1}));
  const Unique runs = unique_consecutive(twice, true, true, 0);
  CHECK(equal(runs.values, index_select(x, 0, tensor({1, 0, 2, 1}))));
  CHECK(ids(runs.inverse) == I{0, 0, 1, 2, 2, 3});
  CHECK(ids(runs.counts) == I{2, 1, 2, 1});
}

TEST_CASE("unique along an axis at its edges", "[sort]") {
  const Tensor mask = tensor({{true, false}, {false, true}, {true, false}});
  CHECK(unique(mask, true, false, false, 0).values.to_vector<bool>() ==
        std::vector<bool>{false, true, true, false});
  // A slice with a NaN differs from every other, and comes last; zeros of both signs are equal.
  const Tensor odd = tensor({{kNan, 0.}, {0., 1.}, {-0., 1.}, {kNan, 0.}, {1., kNan}});
  const Unique u = unique(odd, true, true, true, 0);
  CHECK(ids(u.inverse) == I{2, 0, 0, 3, 1});
  CHECK(ids(u.counts) == I{2, 1, 1, 1});
  CHECK(unique(zeros({0, 3}), true, true, true, 0).values.shape() == Shape{0, 3});
  CHECK(unique(zeros({4, 0}), true, true, true, 0).values.shape() == Shape{1, 0});
  CHECK(ids(unique(zeros({4, 0}), true, true, true, 0).counts) == I{4});
  CHECK(unique(tensor(3.), true, true, true, 0).values.shape() == Shape{1});
  CHECK_THROWS_WITH(unique(odd, true, false, false, 2), Contains("[unique] axis 2 is out of range"));
  CHECK_THROWS_WITH(unique_consecutive(odd, false, false, -3), Contains("[unique_consecutive] axis -3"));
}

TEST_CASE("bincount counts, and sums weights", "[sort]") {
  const Tensor x = tensor({1, 3, 1, 0}).to(GENERATE(i64, i32, u8));
  CHECK(ids(bincount(x)) == I{1, 2, 0, 1});
  CHECK(ids(bincount(x, std::nullopt, 6)) == I{1, 2, 0, 1, 0, 0});
  CHECK(bincount(zeros({0}, {.dtype = i64})).shape() == Shape{0});
  const Tensor w = tensor({0.5f, 2.f, 0.25f, 1.f}).set_requires_grad();
  const Tensor sums = bincount(x, w);
  CHECK(sums.dtype() == f32);
  CHECK(values(sums) == V{1, 0.75, 0, 2});
  CHECK(values(grad({sums}, {w}, {tensor({1.f, 2.f, 3.f, 4.f})})[0]) == V{2, 4, 2, 1});
  CHECK(bincount(x, tensor({1, 2, 3, 4})).dtype() == f64);
  CHECK_THROWS_WITH(bincount(tensor({1, -1})), "[bincount] x has an element -1; all must be >= 0");
  CHECK_THROWS_AS(bincount(tensor({1.f})), DTypeError);
  CHECK_THROWS_AS(bincount(tensor({{1}})), ShapeError);
  CHECK_THROWS_AS(bincount(x, tensor({1.f})), ShapeError);
}

TEST_CASE("order on the GPU equals that on the CPU", "[sort][cuda]") {
  for (const DType dtype : {f32, f64, f16, bf16, i64, i32, u8})
    for (const Shape& shape : {Shape{1, 100003}, Shape{3, 5000}, Shape{3000, 7}, Shape{2, 300, 5}}) {
      const Tensor x = (randn(shape) * 40.0 + 100.0).to(dtype), there = x.to(cuda(0));
      for (const bool descending : {false, true}) {
        const auto want = sort(x, 1, descending), got = sort(there, 1, descending);
        CHECK(equal(got.indices.to(cpu), want.indices));
        CHECK(equal(got.values.to(cpu), want.values));
        const std::int64_t k = shape[1] / 3;
        CHECK(equal(topk(there, k, 1, descending).indices.to(cpu), topk(x, k, 1, descending).indices));
      }
      CHECK(equal(unique(there).values.to(cpu), unique(x).values));
    }
  const Tensor odd = tensor({kInf, kNan, -kInf, -0., 0., kNan, -1.});
  for (const DType dtype : {f32, f64, f16, bf16}) {
    CHECK(ids(argsort(odd.to(dtype).to(cuda(0))).to(cpu)) == I{2, 6, 3, 4, 0, 1, 5});
    CHECK(std::signbit(values(sort(odd.to(dtype).to(cuda(0))).values.to(cpu))[2]));
  }
  const Tensor numbers = randint(0, 1000, {50000});
  const Unique want = unique(numbers, true, true, true), got = unique(numbers.to(cuda(0)), true, true, true);
  CHECK(ids(got.inverse.to(cpu)) == ids(want.inverse));
  CHECK(ids(got.counts.to(cpu)) == ids(want.counts));
  for (const DType dtype : {f32, f64, f16, bf16, i64, i32, u8, boolean}) {
    const Tensor table = randint(0, 3, {400, 2, 3}).to(dtype);
    for (const int axis : {0, 1, 2}) {
      const Unique here = unique(table, true, true, true, axis),
                   there = unique(table.to(cuda(0)), true, true, true, axis);
      CHECK(equal(there.values.to(cpu), here.values));
      CHECK(ids(there.inverse.to(cpu)) == ids(here.inverse));
      CHECK(ids(there.counts.to(cpu)) == ids(here.counts));
    }
  }
  CHECK(ids(bincount(numbers.to(cuda(0))).to(cpu)) == ids(bincount(numbers)));
  CHECK(median(randn({1001}).to(cuda(0))).is_cuda());
}
