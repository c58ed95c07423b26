#include <cotangent/cotangent.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;

namespace {
using V = std::vector<double>;
using I = std::vector<std::int64_t>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using testing::ids;
using testing::values;
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.nbytes())) == 0;
}
// Whole numbers, of which sums are exact.
Tensor whole(const Shape& shape, DType dtype) { return randint(-8, 9, shape).to(dtype); }
}  // namespace

TEST_CASE("cumsum and cumprod", "[scans]") {
  const Tensor x = tensor({{1., 2., 3.}, {4., 0., -1.}});
  CHECK(values(cumsum(x, 1)) == V{1, 3, 6, 4, 4, 3});
  CHECK(values(cumsum(x, 0)) == V{1, 2, 3, 5, 2, 2});
  CHECK(values(cumsum(x.t(), -1)) == V{1, 5, 2, 2, 3, 2});
  CHECK(values(cumprod(x, 1)) == V{1, 2, 6, 4, 0, 0});
  CHECK(values(linear_recurrence(x, full_like(x, 1), 1)) == V{1, 3, 10, 1, 1, 0});
  CHECK(values(linear_recurrence(x, full_like(x, 1), 1, true)) == V{4, 3, 1, 5, 1, 1});
  CHECK(cumsum(tensor({true, true, false}), 0).dtype() == i64);
  CHECK(ids(cumsum(tensor({200, 100}).to(u8), 0)) == I{200, 300});
  CHECK(ids(cumprod(tensor({3, 4, 5}).to(i32), 0)) == I{3, 12, 60});
  CHECK(cumsum(x, 0, f32).dtype() == f32);
  CHECK(values(cumsum(tensor(5.), 0)) == V{5});
  CHECK(cumsum(zeros({0, 3}), 1).shape() == Shape{0, 3});
  const double inf = std::numeric_limits<double>::infinity();
  const V odd = values(cumsum(tensor({1., inf, 2., kNan, 3.}), 0));
  CHECK((odd[0] == 1 && odd[2] == inf && std::isnan(odd[3]) && std::isnan(odd[4])));
  CHECK(values(cumsum(full({5000}, 1, {.dtype = bf16}), 0))[4999] == 4992);  // rounded once
}

TEST_CASE("cummax and cummin find the last of equal elements, and NaN", "[scans]") {
  for (const DType dtype : {f32, f64, f16, bf16, i64, i32}) {
    const auto [v, i] = cummax(tensor({{1, 3, 2, 3}, {4, -1, 5, 0}}).to(dtype), 1);
    CHECK(v.dtype() == dtype);
    CHECK(values(v) == V{1, 3, 3, 3, 4, 4, 5, 5});
    CHECK(ids(i) == I{0, 1, 1, 3, 0, 0, 2, 2});
    const auto low = cummin(tensor({{2, 3, 2, 1}, {4, -1, 5, 0}}).to(dtype), 0);
    CHECK(values(low.values) == V{2, 3, 2, 1, 2, -1, 2, 0});
    CHECK(ids(low.indices) == I{0, 0, 0, 0, 0, 1, 0, 1});
  }
  CHECK(ids(cummax(tensor({false, true, false}), 0).indices) == I{0, 1, 1});
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({-inf, kNan, inf, kNan, 1.});
  for (const auto& found : {cummax(x, 0), cummin(x, 0)}) {
    CHECK(ids(found.indices) == I{0, 1, 1, 3, 3});
    CHECK(values(found.values)[0] == -inf);
    CHECK(std::isnan(values(found.values)[4]));
  }
}

TEST_CASE("logcumsumexp neither overflows nor forgets infinities", "[scans]") {
  const double inf = std::numeric_limits<double>::infinity();
  const V y = values(logcumsumexp(tensor({-inf, 1000., 1000., -inf, inf}), 0));
  CHECK(y[0] == -inf);
  CHECK(y[1] == 1000);
  CHECK(y[2] == Approx(1000 + std::log(2.)));
  CHECK((y[3] == y[2] && y[4] == inf));
}

TEST_CASE("gradients of scans", "[scans]") {
  const auto gradient = [](const Tensor& y, const Tensor& x, const Tensor& g) {
    return values(grad({y}, {x}, {g})[0]);
  };
  const Tensor x = tensor({2., 0., 3.}).set_requires_grad(), g = tensor({1., 10., 100.});
  CHECK(gradient(cumsum(x, 0), x, g) == V{111, 110, 100});
  // y = x0, x0 x1, x0 x1 x2.
  CHECK(gradient(cumprod(x, 0), x, g) == V{1, 620, 0});
  CHECK(gradient(cummax(x, 0).values, x, g) == V{11, 0, 100});
  CHECK(gradient(cummin(x, 0).values, x, g) == V{1, 110, 0});
  const Tensor none = tensor({-std::numeric_limits<double>::infinity(), 0.}).set_requires_grad();
  CHECK(gradient(logcumsumexp(none, 0), none, tensor({1., 1.})) == V{0, 1});
}

TEST_CASE("long rows are cut into pieces that fit together", "[scans]") {
  for (const Shape& shape : {Shape{1, 300001}, Shape{3, 100000}, Shape{70000, 3}, Shape{2, 50000, 2}}) {
    const int axis = shape.size() == 3 || shape[1] > shape[0] ? 1 : 0;
    const Tensor x = whole(shape, f32), y = cumsum(x, axis);
    // Addends are the differences of neighbours.
    const std::int64_t n = shape[axis];
    CHECK(equal(y.narrow(axis, 1, n - 1) - y.narrow(axis, 0, n - 1), x.narrow(axis, 1, n - 1)));
    CHECK(equal(y.narrow(axis, 0, 1), x.narrow(axis, 0, 1)));
    const auto top = cummax(x, axis);
    CHECK(equal(gather(x, axis, top.indices), top.values));
    CHECK(equal(top.values.narrow(axis, n - 1, 1), amax(x, {axis}, true)));
  }
}

TEST_CASE("scans have the same bits for any number of threads", "[scans]") {
  const Tensor x = randn({300001}), a = rand({300001});
  const int threads = num_threads();
  std::vector<Tensor> before;
  for (const int n : {1, 4}) {
    set_num_threads(n);
    const std::vector<Tensor> now{cumsum(x, 0), linear_recurrence(a, x, 0, true), logcumsumexp(x, 0)};
    for (std::size_t k = 0; k < before.size(); ++k) CHECK(same_bits(before[k], now[k]));
    before = now;
  }
  set_num_threads(threads);
}

TEST_CASE("scans on the GPU equal those on the CPU", "[scans][cuda]") {
  // One tile, several groups of tiles, several groups of groups; rows within and across tiles.
  for (const Shape& shape : {Shape{1, 4000}, Shape{1, 9000001}, Shape{7, 1200003}, Shape{1000000, 9},
                             Shape{30000, 257}, Shape{100, 8192}, Shape{300, 4097}, Shape{5, 3000, 7}}) {
    for (const DType dtype : {f32, f64, i64}) {
      const Tensor x = whole(shape, dtype), there = x.to(cuda(0));
      CHECK(equal(cumsum(there, 1).to(cpu), cumsum(x, 1)));
      const auto top = cummax(there, 1), want = cummax(x, 1);
      CHECK(equal(top.values.to(cpu), want.values));
      CHECK(equal(top.indices.to(cpu), want.indices));
    }
    // Coefficients of 0, 1 and -1 with whole numbers: exact; from the end, as gradients need it.
    const Tensor a = randint(-1, 2, shape).to(f32), x = whole(shape, f32);
    CHECK(equal(linear_recurrence(a.to(cuda(0)), x.to(cuda(0)), 1, true).to(cpu),
                linear_recurrence(a, x, 1, true)));
    const Tensor rows = randn(shape);
    CHECK(allclose(logcumsumexp(rows.to(cuda(0)), 1).to(cpu), logcumsumexp(rows, 1), 1e-4, 1e-4));
  }
  const Tensor x = randn({5000003}).to(cuda(0)), first = cumsum(x, 0);
  for (int k = 0; k < 20; ++k) CHECK(same_bits(cumsum(x, 0).to(cpu), first.to(cpu)));
  // Rows that begin at odd addresses, and 16 bits.
  const Tensor odd = whole({100003}, f32).to(cuda(0)).narrow(0, 1, 100002);
  CHECK(equal(cumsum(odd, 0).to(cpu), cumsum(odd.to(cpu), 0)));
  for (const DType dtype : {f16, bf16}) {
    const Tensor bits = randint(0, 2, {200, 100}).to(dtype);
    CHECK(equal(cumsum(bits.to(cuda(0)), 1).to(cpu), cumsum(bits, 1)));
  }
}

TEST_CASE("cumprod's gradient does not know what was below the smallest number on the way", "[scans]") {
  for (const DType dtype : {f32, f16, bf16}) {
    const double tiny = dtype == f16 ? 0x1p-14 : 0x1p-100, large = 1 / tiny;
    INFO(dtype);
    const Tensor x = testing::values({5}, {tiny, tiny, large, large, 3}, dtype).set_requires_grad();
    const Tensor y = cumprod(x, 0);
    y.narrow(0, 4, 1).backward(testing::values({1}, {1}, dtype));
    // y_4 = 3: dx_i = 3 / x_i
    testing::check(x.grad(), {3 * large, 3 * large, 3 * tiny, 3 * tiny, 1}, 1e-2);
    CHECK(x.grad().to_vector<double>()[2] == Approx(3 * tiny).epsilon(1e-2));
  }
}
