#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/ops/copy/concat.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

// Remainders, bits, and other functions of two or three tensors: values worked out by hand, and what is PyTorch's at edges.

namespace {

using ct::Tensor;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();

void check_values(const Tensor& got, const std::vector<double>& want, double margin = 1e-6) {
  ct::testing::check(got, want, margin);
}
Tensor floats(const std::vector<double>& at, ct::Device device) {
  return ct::from_vector(at).to(ct::f32).to(device);
}
Tensor whole(const std::vector<std::int64_t>& at, ct::DType dtype, ct::Device device) {
  return ct::from_vector(at).to(dtype).to(device);
}
using Integers = std::vector<std::int64_t>;
Integers read(const Tensor& t) { return t.to_vector<std::int64_t>(); }

// The gradients of f at the inputs, with cotangent 1.
template <class F>
std::vector<Tensor> gradients(F&& f, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& t : inputs) leaves.push_back(ct::testing::leaf(t));
  const Tensor y = f(leaves);
  y.backward(ct::ones_like(y));
  for (Tensor& t : leaves) t = t.grad();
  return leaves;
}
using Function = Tensor (*)(const Tensor&, const Tensor&);
std::vector<Tensor> gradients(Function f, const Tensor& a, const Tensor& b) {
  return gradients([&](const std::vector<Tensor>& in) { return f(in[0], in[1]); }, {a, b});
}

void check_quotients(ct::Device device) {
  for (const ct::DType t : {ct::f32, ct::f64}) {
    INFO(ct::name(t));
    const Tensor a = ct::from_vector<double>({7, -7, 7, -7, 6, -6, 5, -5, kInf, 1, 0, kNaN}).to(t).to(device);
    const Tensor b = ct::from_vector<double>({3, 3, -3, -3, 3, 3, kInf, kInf, 2, 0, 0, 1}).to(t).to(device);
    check_values(ct::fmod(a, b), {1, -1, 1, -1, 0, 0, 5, -5, kNaN, kNaN, kNaN, kNaN}, 0);
    check_values(ct::remainder(a, b), {1, 2, -2, -1, 0, 0, 5, kInf, kNaN, kNaN, kNaN, kNaN}, 0);
    check_values(ct::floor_divide(a, b), {2, -3, -3, 2, 2, -2, 0, -1, kNaN, kInf, kNaN, kNaN}, 0);
    CHECK(std::signbit(ct::floor_divide(ct::from_vector<double>({-0.0}).to(t).to(device), 3).item()));
  }
  // 1 / 0.1 is rounded up to 10, and 0.1 is above a tenth.
  check_values(ct::floor_divide(floats({1}, device), 0.1), {9}, 0);
  // A large quotient is not off by one, as it would be in f32.
  check_values(ct::floor_divide(floats({9917909, 5719311}, device), floats({0.7f}, device)),
               {14168441, 8170444}, 0);
  // The number has the value that it has in the tensor's dtype.
  for (const ct::DType t : {ct::f32, ct::f64, ct::f16, ct::bf16}) {
    const Tensor x = ct::from_vector<double>({0.7, 0.1}).to(t).to(device);
    check_values(ct::remainder(x, 0.7), {0, x.to(ct::cpu).to_vector<double>()[1]}, 0);
    check_values(ct::floor_divide(x, 0.7), {1, 0}, 0);
  }
  check_values(ct::remainder(7, floats({3, -3, 2.5}, device)), {1, -2, 2});
  check_values(7 % floats({3, -3}, device), {1, -2});
  check_values(floats({7, -7}, device) % 3, {1, 2});
  check_values(ct::fmod(-7, floats({3}, device)), {-1});
  const auto fmod = gradients(ct::fmod, floats({7, -7}, device), floats({3, 3}, device));
  check_values(fmod[0], {1, 1});
  check_values(fmod[1], {-2, 2});
  const auto remainder = gradients(ct::remainder, floats({7, -7}, device), floats({3, 3}, device));
  check_values(remainder[0], {1, 1});
  check_values(remainder[1], {-2, 3});
  const auto floors = gradients(ct::floor_divide, floats({7, -7}, device), floats({3, 3}, device));
  check_values(floors[0], {0, 0});
  check_values(floors[1], {0, 0});
}

void check_integer_quotients(ct::Device device) {
  const Integers a = {7, -7, 7, -7, 6, 5, -5, 0}, b = {3, 3, -3, -3, -3, 0, 0, 0};
  for (const ct::DType t : {ct::i64, ct::i32}) {
    INFO(ct::name(t));
    const Tensor x = whole(a, t, device), y = whole(b, t, device);
    CHECK(ct::floor_divide(x, y).dtype() == t);
    CHECK(read(ct::floor_divide(x, y)) == Integers{2, -3, -3, 2, -2, 0, 0, 0});
    CHECK(read(ct::remainder(x, y)) == Integers{1, 2, -2, -1, 0, 0, 0, 0});
    CHECK(read(ct::fmod(x, y)) == Integers{1, -1, 1, -1, 0, 0, 0, 0});
  }
  // The quotient of the lowest number by -1 wraps around; on a CPU the machine's own division would trap.
  const Tensor lowest = whole({kLowest, kLowest + 1}, ct::i64, device),
               minus = whole({-1, -1}, ct::i64, device);
  CHECK(read(ct::floor_divide(lowest, minus)) == Integers{kLowest, -(kLowest + 1)});
  CHECK(read(ct::floor_divide(lowest, -1)) == Integers{kLowest, -(kLowest + 1)});
  CHECK(read(ct::remainder(lowest, minus)) == Integers{0, 0});
  CHECK(read(ct::fmod(lowest, minus)) == Integers{0, 0});
  const Tensor bytes = whole({250, 7, 0}, ct::u8, device);
  CHECK(read(ct::floor_divide(bytes, 7)) == Integers{35, 1, 0});
  CHECK(read(bytes % 100) == Integers{50, 7, 0});
  CHECK(read(ct::remainder(100, bytes)) == Integers{100, 2, 0});
  CHECK(ct::floor_divide(bytes, 2.0).dtype() == ct::f32);
}

void check_bits(ct::Device device) {
  const Tensor a = whole({12, -1, 5}, ct::i32, device), b = whole({10, 7, -8}, ct::i32, device);
  CHECK(read(ct::bitwise_and(a, b)) == Integers{8, 7, 0});
  CHECK(read(ct::bitwise_or(a, b)) == Integers{14, -1, -3});
  CHECK(read(ct::bitwise_xor(a, b)) == Integers{6, -8, -3});
  CHECK(read(a & 6) == Integers{4, 6, 4});
  CHECK(read(8 | a) == Integers{12, -1, 13});
  CHECK(read(a ^ b) == Integers{6, -8, -3});
  CHECK(read(~a) == Integers{-13, 0, -6});
  CHECK((~a).dtype() == ct::i32);
  CHECK(read(~whole({0, 200}, ct::u8, device)) == Integers{255, 55});
  CHECK(read(~whole({kLowest}, ct::i64, device)) == Integers{std::numeric_limits<std::int64_t>::max()});
  // Masks stay masks.
  const Tensor x = floats({-1, 0.5, 2, kNaN}, device);
  const Tensor inside = (x > 0) & (x < 1);
  CHECK(inside.dtype() == ct::boolean);
  CHECK(inside.to_vector<bool>() == std::vector<bool>{false, true, false, false});
  CHECK((~inside).dtype() == ct::boolean);
  CHECK((~inside).to_vector<bool>() == std::vector<bool>{true, false, true, true});
  CHECK(((x > 1) | inside).to_vector<bool>() == std::vector<bool>{false, true, true, false});
  CHECK(((x > 0) ^ inside).to_vector<bool>() == std::vector<bool>{false, false, true, false});

  CHECK(read(ct::bitwise_left_shift(a, 2)) == Integers{48, -4, 20});
  CHECK(read(ct::bitwise_right_shift(a, whole({2, 5, 1}, ct::i32, device))) == Integers{3, -1, 2});
  CHECK(read(ct::bitwise_left_shift(1, whole({0, 31, 32, 63, 64, -1}, ct::i64, device))) ==
        Integers{1, std::int64_t{1} << 31, std::int64_t{1} << 32, kLowest, 0, 0});
  CHECK(read(ct::bitwise_left_shift(a, 32)) == Integers{0, 0, 0});
  for (const int count : {31, 32, 64, -1})
    CHECK(read(ct::bitwise_right_shift(a, count)) == Integers{0, -1, 0});
  CHECK(read(ct::bitwise_left_shift(whole({3, 255}, ct::u8, device), 7)) == Integers{128, 128});
}

void check_plane(ct::Device device) {
  constexpr double pi = 3.14159265358979;
  for (const ct::DType t : {ct::f32, ct::f64}) {
    INFO(ct::name(t));
    const auto in = [&](const std::vector<double>& v) { return ct::from_vector(v).to(t).to(device); };
    check_values(ct::atan2(in({0, 0, -0.0, -0.0, 1, -1, 1, kInf, kInf, kNaN}),
                           in({1, -1, 1, -1, 0, 0, 1, kInf, -kInf, 1})),
                 {0, pi, 0, -pi, pi / 2, -pi / 2, pi / 4, pi / 4, 3 * pi / 4, kNaN});
    CHECK(std::signbit(ct::atan2(in({-0.0}), in({1})).item()));
    const double big = t == ct::f32 ? 3e38 : 1e308, small = t == ct::f32 ? 1e-38 : 1e-307;
    check_values(ct::hypot(in({3, big / 2, small, kInf, -kInf, kNaN, 0}), in({4, big / 2, 0, kNaN, 1, 1, 0})),
                 {5, big / 2 * std::sqrt(2.0), small, kInf, kInf, kNaN, 0});
    CHECK(ct::hypot(in({3 * small}), in({4 * small})).item() > 4.9 * small);
    const auto length = gradients(ct::hypot, in({3, 0, big / 2}), in({4, 0, 0}));
    check_values(length[0], {0.6, 0, 1});
    check_values(length[1], {0.8, 0, 0});
    const auto angle = gradients(ct::atan2, in({3, 0, big / 2}), in({4, 0, big / 2}));
    check_values(angle[0], {0.16, 0, 0});
    check_values(angle[1], {-0.12, 0, 0});
  }
  check_values(ct::hypot(floats({3, -5}, device), 4), {5, 6.403124237});
  check_values(ct::atan2(1, floats({1, -1}, device)), {pi / 4, 3 * pi / 4});
  CHECK(ct::hypot(ct::tensor({3}).to(device), 4).dtype() == ct::f32);
}

void check_xlogy(ct::Device device) {
  const Tensor a = floats({0, 0, 0, 0, 2, 2, 2, 3}, device),
               b = floats({0, -1, kInf, kNaN, 0, -1, 1, 2}, device);
  check_values(ct::xlogy(a, b), {0, 0, 0, kNaN, -kInf, kNaN, 0, 2.079441542});
  check_values(ct::xlogy(2, floats({2}, device)), {1.386294361});
  check_values(ct::xlogy(floats({0, 2}, device), 0), {0, -kInf});
  const auto slopes = gradients(ct::xlogy, floats({0, 0, 0, 3}, device), floats({0, -1, 2, 2}, device));
  check_values(slopes[0], {0, 0, 0.693147181, 0.693147181});
  check_values(slopes[1], {0, 0, 0, 1.5});
}

void check_three(ct::Device device) {
  const Tensor a = floats({1, 1, 1, 0.1f}, device), b = floats({3, 3, 3, 0.7f}, device);
  check_values(ct::lerp(a, b, floats({0, 0.25, 2, 1}, device)), {1, 1.5, 5, 0.7});
  check_values(ct::lerp(a, b, 0.75), {2.5, 2.5, 2.5, 0.55});
  CHECK(ct::lerp(a, b, 1).to_vector<float>() == b.to_vector<float>());
  CHECK(ct::lerp(a, b, 0).to_vector<float>() == a.to_vector<float>());
  CHECK(ct::lerp(floats({-1e30}, device), floats({1}, device), floats({1}, device)).item() ==
        1);  // a + (b - a) is 0
  check_values(ct::addcmul(a, b, b, 0.5), {5.5, 5.5, 5.5, 0.345});
  check_values(ct::addcdiv(a, b, floats({2}, device), -1), {-0.5, -0.5, -0.5, -0.25});
  const Tensor i = whole({1, 2}, ct::i64, device);
  CHECK(read(ct::addcmul(i, i, i, 3)) == Integers{4, 14});
  CHECK(ct::addcdiv(i, i, i).dtype() == ct::f32);

  const std::vector<Tensor> inputs = {floats({1}, device), floats({3}, device), floats({0.25}, device)};
  const auto blend =
      gradients([](const std::vector<Tensor>& in) { return ct::lerp(in[0], in[1], in[2]); }, inputs);
  check_values(ct::stack(blend), {0.75, 0.25, 2});
  const auto number = gradients([](const std::vector<Tensor>& in) { return ct::lerp(in[0], in[1], 0.25); },
                                {inputs[0], inputs[1]});
  check_values(ct::stack(number), {0.75, 0.25});
  const auto product =
      gradients([](const std::vector<Tensor>& in) { return ct::addcmul(in[0], in[1], in[2], 2); }, inputs);
  check_values(ct::stack(product), {1, 0.5, 6});
  const auto quotient =
      gradients([](const std::vector<Tensor>& in) { return ct::addcdiv(in[0], in[1], in[2], 2); }, inputs);
  check_values(ct::stack(quotient), {1, 8, -96});
}

void check_prelu(ct::Device device) {
  const Tensor x = floats({-1, 2, -3, 4, -5, 0}, device).view({1, 3, 2});
  check_values(ct::prelu(x, floats({0.5}, device)), {-0.5, 2, -1.5, 4, -2.5, 0});
  check_values(ct::prelu(x, floats({0.1, 0.2, 0.3}, device)), {-0.1, 2, -0.6, 4, -1.5, 0});
  const auto slopes = gradients(ct::prelu, x, floats({0.1, 0.2, 0.3}, device));
  CHECK(slopes[1].shape() == ct::Shape{3});
  check_values(slopes[0], {0.1, 1, 0.2, 1, 0.3, 0.3});
  check_values(slopes[1], {-1, -3, -5});
  check_values(gradients(ct::prelu, floats({-2, -3}, device), floats({0.5}, device))[1], {-5});
}

void check_closeness(ct::Device device) {
  const Tensor a = floats({1, 1, kInf, kInf, kNaN, 0}, device),
               b = floats({1.000009, 1.00002, kInf, -kInf, kNaN, 1e-9}, device);
  CHECK(ct::isclose(a, b).to_vector<bool>() == std::vector<bool>{true, false, true, false, false, true});
  CHECK(ct::isclose(a, b, 1e-4, 0, true).to_vector<bool>() ==
        std::vector<bool>{true, true, true, false, true, false});
  CHECK_FALSE(ct::isclose(floats({3e38}, device), floats({kInf}, device), 1).item<bool>());
  CHECK(ct::allclose(floats({1, 2}, device), floats({1.000001, 2}, device)));
  CHECK_FALSE(ct::allclose(floats({1, 2}, device), floats({1.1, 2}, device)));
  CHECK(ct::allclose(floats({1, 1}, device), floats({1}, device)));  // broadcasts
  CHECK(ct::allclose(ct::zeros({0, 3}).to(device), ct::zeros({0, 3}).to(device)));
  constexpr std::int64_t big = (std::int64_t{1} << 40) + 1;  // not a float
  CHECK_FALSE(ct::allclose(whole({big}, ct::i64, device), whole({big - 1}, ct::i64, device), 0, 0));
  CHECK(ct::allclose(whole({big}, ct::i64, device), whole({big - 1}, ct::i64, device), 0, 1));

  CHECK(ct::equal(floats({1, 2}, device), floats({1, 2}, device)));
  CHECK_FALSE(ct::equal(floats({1, 2}, device), floats({1, 3}, device)));
  CHECK_FALSE(ct::equal(floats({1, 1}, device), floats({1}, device)));  // does not broadcast
  CHECK_FALSE(ct::equal(floats({kNaN}, device), floats({kNaN}, device)));
  CHECK(ct::equal(ct::zeros({0}).to(device), ct::zeros({0}).to(device)));
  CHECK_FALSE(ct::equal(whole({big}, ct::i64, device), whole({big - 1}, ct::i64, device)));
}

}  // namespace

TEST_CASE("quotients and what is left", "[binary]") { check_quotients(ct::cpu); }
TEST_CASE("quotients and what is left, on CUDA", "[binary][cuda]") { check_quotients(ct::cuda(0)); }
TEST_CASE("quotients of integers, also by 0", "[binary]") { check_integer_quotients(ct::cpu); }
TEST_CASE("quotients of integers, also by 0, on CUDA", "[binary][cuda]") {
  check_integer_quotients(ct::cuda(0));
}
TEST_CASE("bits of integers and masks", "[binary]") { check_bits(ct::cpu); }
TEST_CASE("bits of integers and masks, on CUDA", "[binary][cuda]") { check_bits(ct::cuda(0)); }
TEST_CASE("angles and lengths in the plane", "[binary]") { check_plane(ct::cpu); }
TEST_CASE("angles and lengths in the plane, on CUDA", "[binary][cuda]") { check_plane(ct::cuda(0)); }
TEST_CASE("xlogy is 0 where a is", "[binary]") { check_xlogy(ct::cpu); }
TEST_CASE("xlogy is 0 where a is, on CUDA", "[binary][cuda]") { check_xlogy(ct::cuda(0)); }
TEST_CASE("functions of three tensors", "[binary]") { check_three(ct::cpu); }
TEST_CASE("functions of three tensors, on CUDA", "[binary][cuda]") { check_three(ct::cuda(0)); }
TEST_CASE("prelu has a slope for all or for each channel", "[binary]") { check_prelu(ct::cpu); }
TEST_CASE("prelu has a slope for all or for each channel, on CUDA", "[binary][cuda]") {
  check_prelu(ct::cuda(0));
}
TEST_CASE("tensors that are close, or equal", "[binary]") { check_closeness(ct::cpu); }
TEST_CASE("tensors that are close, or equal, on CUDA", "[binary][cuda]") { check_closeness(ct::cuda(0)); }

TEST_CASE("angles and lengths of f64 are within 2 units of the last place, arcs of sines within 3",
          "[binary]") {
  std::vector<double> a, b, sine;
  for (const double radius : {0x1p-1020, 1e-200, 1.0, 3e5, 0x1.8p1022})
    for (int i = 0; i < 20000; ++i) {
      const double at = i * 0.00031415926 + (i % 7) * 1e-9;
      a.push_back(radius * std::sin(at));
      b.push_back(radius * std::cos(at));
      sine.push_back(std::sin(at));
    }
  const auto worst = [](const Tensor& y, auto truth) {
    long double most = 0;
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      const long double want = truth(static_cast<std::size_t>(i));
      const long double size = std::max(std::abs(want), 0x1p-1022L);  // where doubles are equally far apart
      const long double unit = std::ldexp(1.0L, std::ilogb(size) - 52);
      most = std::max(most, std::abs(y.data<double>()[i] - want) / unit);
    }
    return static_cast<double>(most);
  };
  const Tensor x = ct::from_vector(a), y = ct::from_vector(b), s = ct::from_vector(sine);
  const auto wide = [](double v) { return static_cast<long double>(v); };
  CHECK(worst(ct::atan2(x, y), [&](std::size_t i) { return std::atan2(wide(a[i]), wide(b[i])); }) <= 2);
  CHECK(worst(ct::hypot(x, y), [&](std::size_t i) { return std::hypot(wide(a[i]), wide(b[i])); }) <= 2);
  CHECK(worst(ct::atan(x), [&](std::size_t i) { return std::atan(wide(a[i])); }) <= 2);
  CHECK(worst(ct::asin(s), [&](std::size_t i) { return std::asin(wide(sine[i])); }) <= 3);
  CHECK(worst(ct::acos(s), [&](std::size_t i) { return std::acos(wide(sine[i])); }) <= 3);
}

TEST_CASE("errors of cold functions of two tensors say what to do", "[binary]") {
  const Tensor i = ct::tensor({1, 2}), f = ct::tensor({1.0, 2.0}), m = ct::tensor({true, false});
  CHECK_THROWS_WITH(ct::remainder(i, 0),
                    Catch::Contains("[remainder] the integers of i64[2] are divided by 0; divide"));
  CHECK_THROWS_AS(ct::floor_divide(i, 0), ct::ValueError);
  CHECK_THROWS_AS(ct::fmod(m, 0), ct::ValueError);
  CHECK_NOTHROW(ct::fmod(i, 0.0));
  CHECK_THROWS_WITH(ct::bitwise_not(f), Catch::Contains("[bitwise_not] x is f32[2]"));
  CHECK_THROWS_WITH(f & i, Catch::Contains("[bitwise_and]"));
  CHECK_THROWS_AS(f & i, ct::DTypeError);
  CHECK_THROWS_AS(ct::bitwise_left_shift(m, m), ct::DTypeError);
  CHECK_THROWS_AS(ct::bitwise_and(ct::full({1}, 1, {.dtype = ct::u8}), 256), ct::ValueError);
  CHECK_THROWS_WITH(ct::addcmul(i, i, i, 0.5), Catch::Contains("[addcmul] value is a floating number"));
  CHECK_THROWS_WITH(ct::prelu(ct::zeros({2, 3}), ct::zeros({2})),
                    Catch::Contains("[prelu] the weight is f32[2] and x f32[2, 3]"));
  CHECK_THROWS_AS(ct::prelu(ct::zeros({3}), ct::zeros({3})), ct::ShapeError);
  CHECK_THROWS_AS(ct::prelu(Tensor(), f), ct::Error);
  CHECK_THROWS_AS(ct::prelu(f, Tensor()), ct::Error);
  CHECK_THROWS_AS(ct::isclose(f, f, -1), ct::ValueError);
  CHECK_THROWS_AS(ct::isclose(f, f, 0, kNaN), ct::ValueError);
  CHECK_THROWS_AS(ct::equal(f, Tensor()), ct::Error);
  CHECK_THROWS_AS(ct::atan2(Tensor(), 1), ct::Error);
  CHECK_THROWS_AS(m % m, ct::DTypeError);
}
