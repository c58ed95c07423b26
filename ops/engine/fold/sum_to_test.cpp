#include <cotangent/ops/engine/fold/sum_to.h>

#include <cmath>
#include <vector>

#include <cotangent/core/device/parallel.h>

#include "tests/catch.h"

namespace {

using namespace ct;

Tensor iota(const Shape& shape, DType dtype = f64) {
  Tensor t = Tensor::allocate(shape, dtype, Device{});
  visit_all("iota", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t i = 0; i < t.numel(); ++i) t.data<T>()[i] = T(static_cast<float>(i % 97) - 40);
  });
  return t;
}

Tensor view(const Tensor& t, const Shape& shape, const Strides& strides) {
  return Tensor::from_storage(t.impl()->storage, shape, strides, 0, t.dtype());
}

double at(const Tensor& t, std::int64_t i) {
  double value = 0;
  visit_all("at", t.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    value = static_cast<double>(static_cast<compute_t<T>>(static_cast<T*>(t.raw_data())[i]));
  });
  return value;
}

// Straight from the definition, for any strides.
std::vector<double> expected(const Tensor& x, const Shape& shape) {
  std::vector<double> out(static_cast<std::size_t>(numel(shape)), 0.0);
  const int lead = x.dim() - shape.size();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i, from = 0, to = 0, step = 1;
    for (int a = x.dim() - 1; a >= 0; --a) {
      const std::int64_t index = rest % x.shape()[a];
      rest /= x.shape()[a];
      from += index * x.strides()[a];
      if (a < lead) continue;
      to += (shape[a - lead] == 1 ? 0 : index) * step;
      step *= shape[a - lead];
    }
    out[static_cast<std::size_t>(to)] += at(x, from);
  }
  return out;
}

void check(const Tensor& x, const Shape& shape, double tolerance = 0) {
  const Tensor got = sum_to(x, shape);
  const std::vector<double> want = expected(x, shape);
  INFO(describe(x) << " with strides " << x.strides() << " to " << shape);
  REQUIRE(got.shape() == shape);
  for (std::size_t i = 0; i < want.size(); ++i)
    REQUIRE(std::abs(at(got, static_cast<std::int64_t>(i)) - want[i]) <= tolerance * (1 + std::abs(want[i])));
}

}  // namespace

TEST_CASE("sum_to returns the tensor itself when nothing was broadcast") {
  const Tensor x = iota({3, 4});
  REQUIRE(sum_to(x, {3, 4}).is_same(x));
}

TEST_CASE("sum_to sums over every kind of broadcast axis") {
  for (const DType dtype : {f64, f32, i64, i32}) {
    check(iota({128, 10}, dtype), {10});
    check(iota({7, 300}, dtype), {300});
    check(iota({5, 1111}, dtype), {1, 1111});
    check(iota({64, 33}, dtype), {64, 1});
    check(iota({64, 33}, dtype), {});
    check(iota({64, 33}, dtype), {1, 1});
    check(iota({4, 5, 6}, dtype), {5, 1});
    check(iota({4, 5, 6}, dtype), {4, 1, 6});
    check(iota({4, 5, 6}, dtype), {1, 5, 1});
    check(iota({4, 1, 6}, dtype), {1, 1, 6});
    check(iota({3, 2, 3, 2, 3}, dtype), {1, 2, 1, 2, 1});
    check(iota({3, 2, 3, 2, 3}, dtype), {3, 1, 3, 1, 3});
  }
}

TEST_CASE("sum_to takes any strides") {
  for (const DType dtype : {f64, f32}) {
    const Tensor x = iota({40, 30}, dtype);
    check(view(x, {30, 40}, {1, 30}), {40});
    check(view(x, {30, 40}, {1, 30}), {30, 1});
    check(view(x, {30, 40}, {1, 30}), {});
    check(view(x, {20, 30}, {60, 1}), {30});
    check(view(x, {20, 15}, {60, 2}), {15});
    check(view(x, {20, 15}, {60, 2}), {20, 1});
    check(view(x, {20, 30}, {0, 1}), {30});
    check(view(x, {20, 30}, {0, 0}), {30});
    check(view(x, {20, 30}, {0, 0}), {});
    check(view(x, {20, 30}, {1, 0}), {20, 1});
    check(view(x, {5, 6, 7, 4}, {120, 4, 0, 1}), {1, 6, 7, 1});
  }
}

TEST_CASE("sum_to of nothing is zero") {
  check(iota({0, 3}), {3});
  check(iota({3, 0}), {3, 1});
  check(iota({0}), {});
  REQUIRE(sum_to(iota({5, 0}), {0}).numel() == 0);
}

TEST_CASE("sum_to adds to what is there") {
  const Tensor x = iota({128, 10}, f32);
  Tensor out = iota({10}, f32);
  sum_to_into(out, x, true);
  const std::vector<double> want = expected(x, {10});
  for (int i = 0; i < 10; ++i) REQUIRE(at(out, i) == want[static_cast<std::size_t>(i)] + i - 40);
}

TEST_CASE("sums of float are exact up to their last rounding, for any length and number of threads") {
  const std::int64_t n = 1 << 24;
  Tensor ones = Tensor::allocate({n}, f32, Device{});
  std::fill_n(ones.data<float>(), n, 1.0f);
  REQUIRE(at(sum_to(ones, {}), 0) == n);

  Tensor tenths = Tensor::allocate({1 << 20, 16}, f32, Device{});
  std::fill_n(tenths.data<float>(), n, 0.1f);
  const double want = static_cast<double>(0.1f) * n;
  const int threads = num_threads();
  for (const int count : {1, 2, 3}) {
    set_num_threads(count);
    REQUIRE(std::abs(at(sum_to(tenths, {}), 0) - want) < 1e-7 * want);
    REQUIRE(std::abs(at(sum_to(tenths, {16}), 5) - want / 16) < 1e-7 * want / 16);
  }
  set_num_threads(threads);
}

TEST_CASE("16-bit types are summed in float") {
  Tensor x = Tensor::allocate({4096, 3}, bf16, Device{});
  std::fill_n(x.data<BFloat16>(), x.numel(), BFloat16(1.0f));
  REQUIRE(at(sum_to(x, {3}), 1) == 4096);
  check(iota({64, 10}, f16), {10}, 1e-3);
  check(iota({10, 64}, f16), {10, 1}, 1e-3);
}

TEST_CASE("sum_to refuses shapes that do not broadcast") {
  REQUIRE_THROWS_AS(sum_to(iota({4, 5}), {4}), ShapeError);
  REQUIRE_THROWS_AS(sum_to(iota({4}), {4, 4}), ShapeError);
}
