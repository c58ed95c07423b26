#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

// The functions of the table's cold lines: values worked out by hand, the edges of their domains, digits.

namespace {

using ct::Tensor;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void check_values(const Tensor& got, const std::vector<double>& want, double margin = 1e-6) {
  ct::testing::check(got, want, margin);
}
Tensor floats(const std::vector<double>& at, ct::Device device) {
  return ct::from_vector(at).to(ct::f32).to(device);
}

using Function = Tensor (*)(const Tensor&);

// The gradient of f at the values, with cotangent 1.
template <class F>
Tensor gradient(F&& f, const std::vector<double>& at, ct::Device device) {
  Tensor x = ct::testing::leaf(floats(at, device));
  const Tensor y = f(x);
  y.backward(ct::ones_like(y));
  return x.grad();
}

void check_functions(ct::Device device) {
  const Tensor x = floats({-2, -0.5, 0, 1, 3}, device);
  check_values(ct::log1p(x), {kNaN, -0.693147181, 0, 0.693147181, 1.386294361});
  check_values(ct::expm1(x), {-0.864664717, -0.393469340, 0, 1.718281828, 19.085536923}, 2e-6);
  check_values(ct::log2(x + 1), {kNaN, -1, 0, 1, 2});
  check_values(ct::log10(floats({-1, 0, 0.01, 1000}, device)), {kNaN, -kInf, -2, 3});
  check_values(ct::exp2(x), {0.25, 0.707106781, 1, 2, 8});
  check_values(ct::tan(x), {2.185039863, -0.546302490, 0, 1.557407725, -0.142546543});
  check_values(ct::asin(x), {kNaN, -0.523598776, 0, 1.570796327, kNaN});
  check_values(ct::acos(x), {kNaN, 2.094395102, 1.570796327, 0, kNaN});
  check_values(ct::atan(x), {-1.107148718, -0.463647609, 0, 0.785398163, 1.249045772});
  check_values(ct::sinh(x), {-3.626860408, -0.521095305, 0, 1.175201194, 10.017874927}, 2e-6);
  check_values(ct::cosh(x), {3.762195691, 1.127625965, 1, 1.543080635, 10.067661996}, 2e-6);
  check_values(ct::asinh(x), {-1.443635475, -0.481211825, 0, 0.881373587, 1.818446459});
  check_values(ct::acosh(x), {kNaN, kNaN, kNaN, 0, 1.762747174});
  check_values(ct::atanh(x), {kNaN, -0.549306144, 0, kInf, kNaN});
  check_values(ct::erfc(x), {1.995322265, 1.520499878, 1, 0.157299207, 2.20904970e-5}, 1e-7);
  check_values(ct::elu(x), {-0.864664717, -0.393469340, 0, 1, 3});
  check_values(ct::elu(x, 2), {-1.729329434, -0.786938681, 0, 1, 3});
  check_values(ct::selu(x), {-1.520166468, -0.691758151, 0, 1.050700987, 3.152102961});
  check_values(ct::hardtanh(x), {-1, -0.5, 0, 1, 1});
  check_values(ct::hardtanh(x, -0.25, 2), {-0.25, -0.25, 0, 1, 2});
  check_values(ct::relu6(x * 4), {0, 0, 0, 4, 6});
  check_values(ct::hardsigmoid(x), {1.0 / 6, 2.5 / 6, 0.5, 4.0 / 6, 1});
  check_values(ct::hardswish(x), {-2.0 / 6, -1.25 / 6, 0, 4.0 / 6, 3});
  check_values(ct::mish(x), {-0.252501339, -0.220743775, 0, 0.865098388, 2.986535049});
  check_values(ct::softsign(x), {-2.0 / 3, -1.0 / 3, 0, 0.5, 0.75});
  check_values(ct::logsigmoid(x), {-2.126928011, -0.974076984, -0.693147181, -0.313261688, -0.048587352});
}

void check_rounding(ct::Device device) {
  const std::vector<double> at = {-2.5, -1.5, -0.5, -0.25, 0.5, 1.5, 2.5, 2.75, 8388609, kInf, -kInf, kNaN};
  for (const ct::DType t : {ct::f32, ct::f64, ct::f16, ct::bf16}) {
    INFO(ct::name(t));
    const Tensor x = (t == ct::f32 || t == ct::f64 ? ct::from_vector(at) : ct::from_vector(at).slice(0, 0, 8))
                         .to(t)
                         .to(device);
    const auto check = [&](const Tensor& got, std::vector<double> want) {
      want.resize(static_cast<std::size_t>(x.numel()));
      CHECK(got.dtype() == t);
      check_values(got, want, 0);
    };
    check(ct::floor(x), {-3, -2, -1, -1, 0, 1, 2, 2, 8388609, kInf, -kInf, kNaN});
    check(ct::ceil(x), {-2, -1, 0, 0, 1, 2, 3, 3, 8388609, kInf, -kInf, kNaN});
    check(ct::round(x), {-2, -2, 0, 0, 0, 2, 2, 3, 8388609, kInf, -kInf, kNaN});
    check(ct::trunc(x), {-2, -1, 0, 0, 0, 1, 2, 2, 8388609, kInf, -kInf, kNaN});
  }
  for (const Function f : {ct::ceil, ct::round, ct::trunc})
    CHECK(std::signbit(f(floats({-0.25}, device)).item()));  // -0
  constexpr std::int64_t big = (std::int64_t{1} << 53) + 1;  // not a double
  for (const Function f : {ct::floor, ct::ceil, ct::round, ct::trunc}) {
    CHECK(f(ct::tensor({big}).to(device)).item<std::int64_t>() == big);
    check_values(gradient(f, {-0.5, 0, 1.25}, device), {0, 0, 0});
  }
}

void check_edges(ct::Device device) {
  const Tensor ends = floats({kNaN, kInf, -kInf}, device);
  check_values(ct::log1p(ends), {kNaN, kInf, kNaN});
  check_values(ct::log1p(floats({-1, -2}, device)), {-kInf, kNaN});
  check_values(ct::expm1(ends), {kNaN, kInf, -1});
  check_values(ct::exp2(ends), {kNaN, kInf, 0});
  check_values(ct::atan(ends), {kNaN, 1.570796327, -1.570796327});
  check_values(ct::sinh(ends), {kNaN, kInf, -kInf});
  check_values(ct::cosh(ends), {kNaN, kInf, kInf});
  check_values(ct::asinh(ends), {kNaN, kInf, -kInf});
  check_values(ct::acosh(ends), {kNaN, kInf, kNaN});
  check_values(ct::erfc(ends), {kNaN, 0, 2});
  check_values(ct::elu(ends), {kNaN, kInf, -1});
  check_values(ct::selu(ends), {kNaN, kInf, -1.758099341});
  check_values(ct::hardtanh(ends), {kNaN, 1, -1});
  check_values(ct::hardsigmoid(ends), {kNaN, 1, 0});
  check_values(ct::hardswish(ends), {kNaN, kInf, 0});
  check_values(ct::logsigmoid(ends), {kNaN, 0, -kInf});
  for (const Function f : {ct::log1p, ct::expm1, ct::tan, ct::asin, ct::atan, ct::sinh, ct::asinh, ct::atanh})
    CHECK(std::signbit(f(floats({-0.0}, device)).item()));

  // Nothing on the way overflows, nor do gradients.
  check_values(ct::cosh(floats({89.2, 90}, device)) / 1e38, {2.741804373, kInf}, 1e-4);
  check_values(ct::mish(floats({-200, -60, 60, 1e30}, device)), {0, 0, 60, 1e30});
  check_values(ct::logsigmoid(floats({-200, -1e30, 200}, device)), {-200, -1e30, 0});
  check_values(gradient(ct::mish, {-200, -1e30, 0, 200, 1e30}, device), {0, 0, 0.6, 1, 1});
  check_values(gradient(ct::logsigmoid, {-200, -1e30, 0, 200, 1e30}, device), {1, 1, 0.5, 0, 0});
  check_values(gradient([](const Tensor& x) { return ct::elu(x); }, {-1e30, 0, 1e30}, device), {0, 1, 1});
  check_values(gradient(ct::expm1, {-1e30, 0}, device), {0, 1});
  // Corners are PyTorch's.
  check_values(gradient([](const Tensor& x) { return ct::elu(x, 2); }, {-1, 0, 1}, device),
               {0.735758882, 2, 1});
  check_values(gradient(ct::selu, {0, 1}, device), {1.758099341, 1.050700987});
  check_values(gradient([](const Tensor& x) { return ct::hardtanh(x); }, {-2, -1, 0, 1, kNaN}, device),
               {0, 0, 1, 0, 0});
  check_values(gradient(ct::relu6, {kNaN}, device), {0});
  check_values(gradient([](const Tensor& x) { return ct::elu(x, 2); }, {kNaN}, device), {1});
  check_values(gradient(ct::selu, {kNaN}, device), {1.050700987});
  // Bounds have the values that they have in f32.
  check_values(gradient([](const Tensor& x) { return ct::hardtanh(x, 0.1, 0.7); }, {0.1, 0.7, 0.5}, device),
               {0, 0, 1});
  check_values(gradient(ct::relu6, {0, 3, 6}, device), {0, 1, 0});
  check_values(gradient(ct::hardsigmoid, {-3, 0, 3}, device), {0, 1.0 / 6, 0});
  check_values(gradient(ct::hardswish, {-3, -1.5, 0, 3, 4}, device), {0, 0, 0.5, 1, 1});
  check_values(gradient(ct::softsign, {-1, 0, 3}, device), {0.25, 1, 0.0625});
  check_values(gradient(ct::asin, {0, 1}, device), {1, kInf});
  check_values(gradient(ct::acos, {0, -1}, device), {-1, -kInf});
  check_values(gradient(ct::acosh, {1, 2}, device), {kInf, 0.577350269});
}

void check_unusual(ct::Device device) {
  const std::vector<double> at = {kNaN, kInf, -kInf, 3};
  for (const ct::DType t : {ct::f32, ct::f64, ct::f16, ct::bf16}) {
    INFO(ct::name(t));
    const Tensor x = ct::from_vector(at).to(t).to(device);
    CHECK(ct::isnan(x).to_vector<bool>() == std::vector<bool>{true, false, false, false});
    CHECK(ct::isinf(x).to_vector<bool>() == std::vector<bool>{false, true, true, false});
    CHECK(ct::isfinite(x).to_vector<bool>() == std::vector<bool>{false, false, false, true});
    const double most = t == ct::f16    ? 65504
                        : t == ct::bf16 ? 3.3895313892515355e38
                        : t == ct::f32  ? 3.4028234663852886e38
                                        : 1.7976931348623157e308;
    CHECK(ct::nan_to_num(x).to_vector<double>() == std::vector<double>{0, most, -most, 3});
    CHECK(ct::nan_to_num(x, 1, 2, -2).to_vector<double>() == std::vector<double>{1, 2, -2, 3});
    CHECK(ct::nan_to_num(x, kInf, 5).to_vector<double>() == std::vector<double>{kInf, 5, -most, 3});
    check_values(ct::nan_to_num(x, 1, kNaN, 7), {1, kNaN, 7, 3});
  }
  check_values(gradient([](const Tensor& x) { return ct::nan_to_num(x); }, at, device), {0, 0, 0, 1});
  const Tensor i = ct::tensor({1, -2}).to(device);
  CHECK(ct::isfinite(i).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(ct::isnan(i).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK(ct::isinf(i).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK(ct::nan_to_num(i).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, -2});
}

// The largest error of f in units of the last place of f32, on `count` numbers from low to high in equal steps or, where
// both are positive, in equal ratios.
double ulps(Function f, double (*truth)(double), double low, double high, bool ratios, ct::Device device) {
  constexpr int count = 20001;
  std::vector<double> at;
  for (int i = 0; i < count; ++i) {
    const double t = i / (count - 1.0);
    at.push_back(static_cast<float>(ratios ? low * std::pow(high / low, t) : low + t * (high - low)));
  }
  const std::vector<double> got = f(floats(at, device)).to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double want = truth(at[i]);
    if (static_cast<float>(want) == got[i]) continue;
    const double unit = std::max(std::ldexp(1, std::ilogb(want) - 23), 0x1p-149);
    worst = std::max(worst, std::abs(got[i] - want) / unit);
  }
  return worst;
}

void check_digits(ct::Device device) {
  struct Case {
    const char* name;
    Function f;
    double (*truth)(double);
    double low, high;
    bool ratios;
  };
  const Case cases[] = {
      {"log1p", ct::log1p, std::log1p, 1e-30, 1e30, true},
      {"log1p below 0", ct::log1p, std::log1p, -0.999, 0, false},
      {"expm1", ct::expm1, std::expm1, 1e-30, 88, true},
      {"expm1 below 0", ct::expm1, std::expm1, -20, 0, false},
      {"log2", ct::log2, std::log2, 1e-38, 1e38, true},
      {"log2 near 1", ct::log2, std::log2, 0.9, 1.1, false},
      {"log10", ct::log10, std::log10, 1e-38, 1e38, true},
      {"exp2", ct::exp2, std::exp2, -140, 127.9, false},
      {"tan", ct::tan, std::tan, -100, 100, false},
      {"asin", ct::asin, std::asin, -1, 1, false},
      {"acos", ct::acos, std::acos, -1, 1, false},
      {"atan", ct::atan, std::atan, 1e-20, 1e20, true},
      {"sinh", ct::sinh, std::sinh, 1e-20, 89.4, true},
      {"cosh", ct::cosh, std::cosh, -89.4, 89.4, false},
      {"asinh", ct::asinh, std::asinh, 1e-20, 1e38, true},
      {"acosh", ct::acosh, std::acosh, 1, 1e38, true},
      {"atanh", ct::atanh, std::atanh, 1e-20, 0.99999, true},
      {"erfc", ct::erfc, std::erfc, -4, 9, false},
      {"mish", ct::mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, -80, 20, false},
      {"logsigmoid", ct::logsigmoid, [](double x) { return -std::log1p(std::exp(-x)); }, -80, 80, false},
      {"selu", ct::selu,
       [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); }, -20, 3,
       false},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    CHECK(ulps(c.f, c.truth, c.low, c.high, c.ratios, device) <= (device.is_cuda() ? 8 : 1));
  }
}

}  // namespace

TEST_CASE("cold functions at values computed by hand", "[unary]") { check_functions(ct::cpu); }
TEST_CASE("cold functions at values computed by hand, on CUDA", "[unary][cuda]") {
  check_functions(ct::cuda(0));
}
TEST_CASE("rounding to whole numbers", "[unary]") { check_rounding(ct::cpu); }
TEST_CASE("rounding to whole numbers, on CUDA", "[unary][cuda]") { check_rounding(ct::cuda(0)); }
TEST_CASE("cold functions at the edges of their domains", "[unary]") { check_edges(ct::cpu); }
TEST_CASE("cold functions at the edges of their domains, on CUDA", "[unary][cuda]") {
  check_edges(ct::cuda(0));
}
TEST_CASE("NaN and infinities are found and replaced", "[unary]") { check_unusual(ct::cpu); }
TEST_CASE("NaN and infinities are found and replaced, on CUDA", "[unary][cuda]") {
  check_unusual(ct::cuda(0));
}
TEST_CASE("cold functions in f32 are right to the last place", "[unary]") { check_digits(ct::cpu); }
TEST_CASE("cold functions in f32 are right to a few last places, on CUDA", "[unary][cuda]") {
  check_digits(ct::cuda(0));
}

TEST_CASE("errors of cold functions say what to do", "[unary]") {
  const Tensor x = ct::tensor({1.0});
  CHECK_THROWS_WITH(ct::hardtanh(x, 1, -1),
                    "[hardtanh] the bounds are 1 and -1; they must be numbers, the lower one first");
  CHECK_THROWS_AS(ct::hardtanh(x, kNaN, 1), ct::ValueError);
  CHECK_THROWS_WITH(ct::elu(x, kInf), Catch::Contains("[elu] alpha"));
  CHECK_THROWS_WITH(ct::nan_to_num(x, kInf, kNaN), Catch::Contains("[nan_to_num] NaN is to become infinite"));
  CHECK_THROWS_AS(ct::nan_to_num(Tensor()), ct::Error);
  CHECK_THROWS_AS(ct::floor(ct::tensor({true})), ct::DTypeError);
  CHECK_THROWS_AS(ct::mish(Tensor()), ct::Error);
  CHECK(ct::log1p(ct::tensor({1, 2})).dtype() == ct::f32);
}
