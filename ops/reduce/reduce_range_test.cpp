// Reductions of finite numbers whose powers or products leave the range of their dtype on the way.

#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/reduce/reduce.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using namespace ct;
using V = std::vector<double>;
using Reduce = Tensor (*)(const Tensor& x, double number, const Dims& axes);

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

void same(const V& got, const V& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i << ": " << got[i] << ", want " << want[i]);
    if (std::isnan(want[i]))
      CHECK(std::isnan(got[i]));
    else if (std::isinf(want[i]) || want[i] == 0)
      CHECK(got[i] == want[i]);
    else
      CHECK(std::abs(got[i] / want[i] - 1) <= tolerance);
  }
}

// y and, for a cotangent of 1, dx of the elements x, which are given to f three times: as a row, as one of
// several columns, and at the end of a long row of elements that leave both as they are.
void check(Device device, DType dtype, Reduce f, double number, const V& x, double y, const V& dx,
           double neutral = kNan) {
  const double tolerance = dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : 0x1p-8;
  const auto n = static_cast<std::int64_t>(x.size());
  const auto run = [&](const V& v, const Shape& shape, const Dims& axes, std::int64_t first,
                       std::int64_t stride) {
    INFO(dtype << " " << shape << " number " << number);
    const Tensor t = testing::leaf(testing::values(shape, v, dtype).to(device));
    const Tensor out = f(t, number, axes);
    same({out.reshape({-1}).to_vector<double>()[0]}, {y}, tolerance);
    out.backward(ones_like(out));
    const V all = t.grad().to_vector<double>();
    V got;
    for (std::int64_t i = 0; i < n; ++i) got.push_back(all[static_cast<std::size_t>(first + i * stride)]);
    same(got, dx, tolerance);
  };
  run(x, {n}, {}, 0, 1);
  V columns;
  for (const double v : x) columns.insert(columns.end(), {v, 1, 2});
  run(columns, {n, 3}, {0}, 0, 3);
  if (std::isnan(neutral)) return;
  V row(5000, neutral);
  row.insert(row.end(), x.begin(), x.end());
  run(row, {5000 + n}, {}, 5000, 1);
}

Tensor product(const Tensor& x, double, const Dims& axes) { return prod(x, axes); }
Tensor p_norm(const Tensor& x, double p, const Dims& axes) { return norm(x, p, axes); }
Tensor deviation(const Tensor& x, double correction, const Dims& axes) { return stddev(x, axes, correction); }

void check_products(Device device) {
  // A zero among factors whose product overflows: 0, not 0 times infinity.
  check(device, f64, product, 0, {0, 1e200, 1e200}, 0, {kInf, 0, 0}, 1);
  check(device, f64, product, 0, {1e-200, 0, 1e-150}, 0, {0, 0, 0}, 1);
  check(device, f64, product, 0, {0, 1e200, 0, 1e200}, 0, {0, 0, 0, 0}, 1);
  check(device, f32, product, 0, {0, 1e30, 1e30, 1e-30}, 0, {1e30, 0, 0, 0}, 1);
  V hundreds(201, 100);
  hundreds[0] = 0;
  V gradient(201, 0);
  gradient[0] = kInf;
  check(device, bf16, product, 0, hundreds, 0, gradient, 1);
  // Only the product itself must be in range, not its partial products.
  check(device, f64, product, 0, {1e200, 1e200, 1e-200, 1e-250}, 1e-50, {1e-250, 1e-250, 1e150, 1e200}, 1);
  check(device, f64, product, 0, {1e-200, 1e-200}, 0, {1e-200, 1e-200}, 1);
  check(device, f64, product, 0, {1e200, -1e200}, -kInf, {-1e200, 1e200}, 1);
  check(device, f64, product, 0, {0x1p-1074, 0x1p1000, 8}, 0x1p-71, {0x1p1003, 0x1p-1071, 0x1p-74}, 1);
  check(device, f32, product, 0, {1e-30, 1e-30, 1e30}, 1e-30, {1, 1, 0}, 1);
  check(device, f32, product, 0, {0x1p-149, 0x1p127, 4}, 0x1p-20, {kInf, 0x1p-147, 0x1p-22}, 1);
  // Infinities and NaN among the factors are not hidden.
  check(device, f64, product, 0, {0, 2, kInf}, kNan, {kInf, kNan, 0}, 1);
  check(device, f32, product, 0, {0, 2, kNan}, kNan, {kNan, kNan, 0}, 1);
  check(device, f32, product, 0, {0, 0, kInf}, kNan, {kNan, kNan, 0}, 1);
  check(device, f64, product, 0, {2, kInf}, kInf, {kInf, kNan}, 1);
  // A cotangent of 0 stays 0.
  const Tensor x = testing::leaf(testing::values({3}, {0, 1e200, 1e200}).to(device));
  prod(x).backward(zeros_like(prod(x)));
  same(x.grad().to_vector<double>(), {0, 0, 0}, 0);
}

void check_norms(Device device) {
  struct Sizes {
    DType dtype;
    double size;
  };
  for (const Sizes& s : {Sizes{f32, 1e25},
                         {f32, 1e-25},
                         {f32, 0x1p-140},
                         {f64, 1e200},
                         {f64, 1e-200},
                         {f64, 1e300},
                         {bf16, 1e30},
                         {bf16, 1e-30},
                         {f32, 1}}) {
    const double a = s.size;
    const auto run = [&](double p, const V& x, double y, const V& dx, bool padded = true) {
      V scaled;
      for (const double v : x) scaled.push_back(v * a);
      check(device, s.dtype, p_norm, p, scaled, y * a, dx, padded ? 0 : kNan);
    };
    if (s.size == 0x1p-140) {  // of few bits
      run(2, {3, -4}, 5, {0.6, -0.8});
      continue;
    }
    const bool coarse = s.dtype == bf16;  // 3 and 4 times 1e30 are rounded then
    if (coarse) {
      run(2, {1, -1, 1, 1}, 2, {0.5, -0.5, 0.5, 0.5});
      continue;
    }
    run(2, {3, -4}, 5, {0.6, -0.8});
    run(1, {3, -4}, 7, {1, -1});
    run(0.5, {1, -4}, 9, {3, -1.5});  // sqrt(y / x)
    run(3, {3, 4, -5}, 6, {0.25, 4.0 / 9, -25.0 / 36});
    run(8, {1, 1}, std::pow(2, 0.125), {std::pow(2, -0.875), std::pow(2, -0.875)});
    run(-1, {2, -2}, 1, {0.25, -0.25}, false);  // (y / x)^2
    run(-2, {3, 4}, 2.4, {0.512, 0.216}, false);
    run(kInf, {3, -4}, 4, {0, -1});
    run(-kInf, {3, -4}, 3, {1, 0}, false);
    check(device, s.dtype, p_norm, 0, {3 * a, -4 * a, 0}, 2, {0, 0, 0}, 0);
  }
  // Large and small elements next to one another, in either order.
  check(device, f64, p_norm, 2, {1e-200, 3e200, 4e200}, 5e200, {0, 0.6, 0.8}, 1);
  check(device, f32, p_norm, 2, {4e25, 1e-30, 3e25}, 5e25, {0.8, 0, 0.6}, 1);
  check(device, f64, p_norm, -1, {1e200, 1e-200, 1e-200}, 5e-201, {0, 0.25, 0.25}, 1);
  // The cotangent times the norm may leave the range, too.
  check(
      device, f32, [](const Tensor& x, double, const Dims& axes) { return norm(x, 2, axes) * 1e-20; }, 0,
      {3e25, 4e25}, 5e5, {6e-21, 8e-21}, 0);
  for (const double p : {2.0, 3.0, 0.5}) {
    check(device, f64, p_norm, p, {1e200, kInf}, kInf, {p < 1 ? kInf : 0, kNan}, 0);
    check(device, f32, p_norm, p, {1e25, kNan}, kNan, {kNan, kNan}, 0);
  }
  check(device, f64, p_norm, -2, {1e-200, 0}, 0, {0, 0}, 1);
}

void check_deviations(Device device) {
  for (const double a : {1e20, 1e-23, 1e-38, 1e37})
    check(device, f32, deviation, 0, {a, -a, a, -a}, a, {0.25, -0.25, 0.25, -0.25});
  for (const double a : {1e200, 1e-200, 1e300})
    check(device, f64, deviation, 0, {a, -a, a, -a}, a, {0.25, -0.25, 0.25, -0.25});
  V row(5000, 0);
  row.insert(row.end(), {-1e200, 1e200});
  const Tensor x = testing::values({5002}, row).to(device);
  same({stddev(x, {}, 0).item()}, {1e200 * std::sqrt(2 / 5002.0)}, 1e-13);
}

// NaN wins over everything, also over rows that hold nothing else but infinities.
void check_nan_beside_infinity(Device device) {
  for (const DType dtype : {f32, f64, bf16}) {
    const auto extreme = [](const Tensor& x, double sign, const Dims& axes) {
      return sign > 0 ? amax(x, axes) : amin(x, axes);
    };
    const auto log_sum = [](const Tensor& x, double, const Dims& axes) { return logsumexp(x, axes); };
    check(device, dtype, extreme, 1, {-kInf, kNan, -kInf}, kNan, {0, 1, 0}, -kInf);
    check(device, dtype, extreme, -1, {kInf, kNan, kInf}, kNan, {0, 1, 0}, kInf);
    check(device, dtype, extreme, 1, {-kInf, -kInf}, -kInf, {0.5, 0.5});
    check(device, dtype, log_sum, 0, {-kInf, kNan, -kInf}, kNan, {kNan, kNan, kNan}, -kInf);
    check(device, dtype, log_sum, 0, {kNan, -kInf}, kNan, {kNan, kNan}, -kInf);
    check(device, dtype, log_sum, 0, {-kInf, -kInf}, -kInf, {0, 0}, -kInf);
  }
}

}  // namespace

TEST_CASE("a product with a zero is 0, and gradients are the products of the others", "[reduce]") {
  check_products(cpu);
}
TEST_CASE("norms of numbers whose powers leave the range", "[reduce]") { check_norms(cpu); }
TEST_CASE("standard deviations of numbers whose squares leave the range", "[reduce]") {
  check_deviations(cpu);
}
TEST_CASE("a NaN among infinities wins", "[reduce]") { check_nan_beside_infinity(cpu); }

TEST_CASE("on CUDA, products, norms and deviations whose parts leave the range", "[reduce][cuda]") {
  check_products(cuda(0));
  check_norms(cuda(0));
  check_deviations(cuda(0));
  check_nan_beside_infinity(cuda(0));
}
