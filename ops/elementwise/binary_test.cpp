#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>
#include <cotangent/ops/elementwise/unary.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

namespace {

using ct::Tensor;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void check_values(const Tensor& got, const std::vector<double>& want, double margin = 1e-6) {
  ct::testing::check(got, want, margin);
}
void check_bools(const Tensor& got, const std::vector<bool>& want) {
  CHECK(got.dtype() == ct::boolean);
  CHECK(got.to_vector<bool>() == want);
}

struct Pair {
  Tensor a, b;
};
// Gradients of f(a, b) with cotangent 1.
template <class F>
Pair gradients(F&& f, Tensor a, Tensor b) {
  a = a.clone();
  b = b.clone();
  a.set_requires_grad();
  b.set_requires_grad();
  const Tensor y = f(a, b);
  y.backward(ct::ones_like(y));
  return {a.grad(), b.grad()};
}

// Numbers that an integer dtype can't hold: arithmetic refuses them, comparisons answer.
void check_numbers_out_of_range(ct::Device device) {
  using namespace ct;
  using Op = Tensor (*)(const Tensor& x, const Scalar& p);
  const auto says = [](const auto& f, const std::string& text) {
    CHECK_THROWS_WITH(f(), Catch::Contains(text));
    CHECK_THROWS_AS(f(), ValueError);
  };
  struct Named {
    const char* name;
    Op run;
  };
  const Named ops[] = {{"add", [](const Tensor& x, const Scalar& p) { return x + p; }},
                       {"add", [](const Tensor& x, const Scalar& p) { return p + x; }},
                       {"sub", [](const Tensor& x, const Scalar& p) { return x - p; }},
                       {"sub", [](const Tensor& x, const Scalar& p) { return p - x; }},
                       {"mul", [](const Tensor& x, const Scalar& p) { return x * p; }},
                       {"mul", [](const Tensor& x, const Scalar& p) { return p * x; }},
                       {"add", [](const Tensor& x, const Scalar& p) { return add(x, 1, p); }},
                       {"sub", [](const Tensor& x, const Scalar& p) { return sub(x, x, p); }},
                       {"maximum", [](const Tensor& x, const Scalar& p) { return maximum(x, p); }},
                       {"add_", [](const Tensor& x, const Scalar& p) { return Tensor(x).add_(p); }},
                       {"sub_", [](const Tensor& x, const Scalar& p) { return Tensor(x).sub_(p); }},
                       {"mul_", [](const Tensor& x, const Scalar& p) { return Tensor(x).mul_(p); }}};
  const Tensor words = tensor({7, -1}).to(i32).to(device), bytes = tensor({7, 1}).to(u8).to(device);
  for (const Named& op : ops) {
    INFO(op.name);
    const std::string start = "[" + std::string(op.name) + "] the value ";
    says([&] { op.run(words, 3'000'000'000); }, start + "3000000000 does not fit into i32");
    says([&] { op.run(bytes, 256); }, start + "256 does not fit into u8, which holds 0 to 255");
    says([&] { op.run(bytes, -1); }, start + "-1 does not fit into u8");
  }
  says([&] { pow(words, 3'000'000'000); }, "[pow] the value 3000000000");
  says([&] { pow(Scalar(3'000'000'000), words); }, "[pow] the value 3000000000");
  // Nothing was changed; what fits wraps around as before.
  CHECK(words.to_vector<std::int64_t>() == std::vector<std::int64_t>{7, -1});
  CHECK((words + 2'147'483'647).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-2147483642, 2147483646});
  CHECK((words - (-2'147'483'647 - 1)).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-2147483641, 2147483647});
  CHECK((bytes - 2).to_vector<std::int64_t>() == std::vector<std::int64_t>{5, 255});
  CHECK((tensor({true, false}).to(device) + 300).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{301, 300});
  // Quotients are f32, and so is the number.
  check_values(words / 3'500'000'000, {7 / 3.5e9, -1 / 3.5e9}, 1e-16);
  check_values(3'500'000'000 / words, {5e8, -3.5e9}, 1);
  check_bools(lt(words, 3'000'000'000), {true, true});
  check_bools(eq(words, 4'294'967'295), {false, false});
  check_bools(ge(bytes, -1), {true, true});
  check_bools(ne(bytes, 263), {true, true});
}

// The gradients of powers that have an operation of their own start from x, not from a rounded y.
void check_16_bit_powers(ct::Device device) {
  for (const ct::DType dtype : {ct::f16, ct::bf16})
    for (const double p : {0.5, -0.5, -1.0}) {
      std::vector<double> x;
      for (int i = 1; i < 200; ++i) x.push_back(0.05 * i);
      const Tensor t =
          ct::testing::leaf(ct::testing::values({static_cast<std::int64_t>(x.size())}, x, dtype).to(device));
      const Tensor y = ct::pow(t, p);
      y.backward(ct::ones_like(y));
      x = t.to_vector<double>();
      const std::vector<double> dx = t.grad().to_vector<double>();
      const double half_ulp =
          dtype == ct::f16 ? 0x1p-11 : 0x1p-8;  // relative, where a number's unit is least
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double want = p * std::pow(x[i], p - 1);
        if (!(std::abs(dx[i] / want - 1) <= 1.01 * half_ulp))
          FAIL("x " << x[i] << " ^ " << p << " in " << dtype << ": " << dx[i] << ", want " << want);
      }
    }
}

}  // namespace

TEST_CASE("numbers that an integer tensor can't hold", "[binary]") { check_numbers_out_of_range(ct::cpu); }
TEST_CASE("numbers that an integer tensor can't hold, on CUDA", "[binary][cuda]") {
  check_numbers_out_of_range(ct::cuda(0));
}
TEST_CASE("the gradients of powers in 16 bits are rounded once", "[binary]") { check_16_bit_powers(ct::cpu); }
TEST_CASE("the gradients of powers in 16 bits are rounded once, on CUDA", "[binary][cuda]") {
  check_16_bit_powers(ct::cuda(0));
}

TEST_CASE("arithmetic at values computed by hand", "[binary]") {
  const Tensor a = ct::tensor({1.0, -2.0, 3.0}), b = ct::tensor({4.0, 0.5, -1.0});
  check_values(a + b, {5, -1.5, 2});
  check_values(a - b, {-3, -2.5, 4});
  check_values(a * b, {4, -1, -3});
  check_values(a / b, {0.25, -4, -3});
  check_values(ct::add(a, b, 10), {41, 3, -7});
  check_values(ct::sub(a, b, 0.5), {-1, -2.25, 3.5});
  check_values(ct::pow(ct::tensor({2.0, 9.0, 4.0}), ct::tensor({3.0, 0.5, -1.0})), {8, 3, 0.25});
  check_values(ct::maximum(a, b), {4, 0.5, 3});
  check_values(ct::minimum(a, b), {1, -2, -1});
  check_values(a + 1, {2, -1, 4});
  check_values(1 - a, {0, 3, -2});
  check_values(a - 1, {0, -3, 2});
  check_values(2.5 * a, {2.5, -5, 7.5});
  check_values(a / 4, {0.25, -0.5, 0.75});
  check_values(6 / a, {6, -3, 2});
  check_values(ct::sub(a, 2, 3), {-5, -8, -3});
  check_values(ct::maximum(a, 0), {1, 0, 3});
  check_values(ct::minimum(0, a), {0, -2, 0});
  check_values(ct::pow(a, 2), {1, 4, 9});
  check_values(ct::pow(a, 3), {1, -8, 27});
  check_values(ct::pow(a, 1), {1, -2, 3});
  check_values(ct::pow(a, -1), {1, -0.5, 1.0 / 3});
  check_values(ct::pow(a, 0), {1, 1, 1});
  check_values(ct::pow(a, 0.5), {1, kNaN, 1.7320508});
  check_values(ct::pow(a, 4), {1, 16, 81});
  check_values(ct::pow(2, a), {2, 0.25, 8});
}

TEST_CASE("broadcasting: shapes, and gradients summed over the repeated axes", "[binary]") {
  const Tensor a = ct::tensor({{1.0}, {2.0}}), b = ct::tensor({10.0, 20.0, 30.0});
  const Tensor sum = a + b;
  CHECK(sum.shape() == ct::Shape{2, 3});
  check_values(sum, {11, 21, 31, 12, 22, 32});
  const auto [da, db] = gradients([](const Tensor& x, const Tensor& y) { return x * y; }, a, b);
  CHECK(da.shape() == ct::Shape{2, 1});
  check_values(da, {60, 60});
  check_values(db, {3, 3, 3});
  const auto [ds, dt] = gradients([](const Tensor& x, const Tensor& y) { return x - y; }, a, b);
  check_values(ds, {3, 3});
  check_values(dt, {-2, -2, -2});
  CHECK((ct::zeros({0, 3}) + ct::zeros({1, 3})).shape() == ct::Shape{0, 3});
  CHECK_THROWS_AS(ct::zeros({2, 3}) + ct::zeros({4}), ct::ShapeError);
  CHECK_THROWS_WITH(ct::zeros({2, 3}) * ct::zeros({4}),
                    Catch::Matchers::Contains("[mul] shapes [2, 3] and [4]"));
}

TEST_CASE("gradients of products, quotients and powers", "[binary]") {
  const Tensor a = ct::tensor({3.0, -2.0}), b = ct::tensor({2.0, 4.0});
  const auto quotient = gradients([](const Tensor& x, const Tensor& y) { return x / y; }, a, b);
  check_values(quotient.a, {0.5, 0.25});
  check_values(quotient.b, {-0.75, 0.125});
  // 0^0: the gradient of the base is 0, not NaN; a negative base has no derivative in its exponent.
  const auto power = gradients([](const Tensor& x, const Tensor& y) { return ct::pow(x, y); },
                               ct::tensor({3.0, 0.0, 0.0, -2.0}), ct::tensor({2.0, 0.0, 2.0, 3.0}));
  check_values(power.a, {6, 0, 0, 12});
  check_values(power.b, {9 * std::log(3.0), 0, 0, kNaN});
  Tensor x = ct::tensor({0.0, 2.0});
  x.set_requires_grad();
  ct::pow(x, 0).backward(ct::ones({2}));
  check_values(x.grad(), {0, 0});
  x.set_grad({});
  ct::pow(0, x).backward(ct::ones({2}));
  check_values(x.grad(), {0, 0});
  x.set_grad({});
  ct::pow(x, 2.5).backward(ct::ones({2}));
  check_values(x.grad(), {0, 2.5 * std::pow(2.0, 1.5)});
  x.set_grad({});
  (5 / (x + 1)).backward(ct::ones({2}));
  check_values(x.grad(), {-5, -5.0 / 9});
}

TEST_CASE("maximum and minimum: ties share the gradient, NaN wins", "[binary]") {
  const Tensor a = ct::tensor({1.0, 2.0, 3.0}), b = ct::tensor({1.0, 5.0, 0.0});
  const auto most = gradients([](const Tensor& x, const Tensor& y) { return ct::maximum(x, y); }, a, b);
  check_values(most.a, {0.5, 0, 1});
  check_values(most.b, {0.5, 1, 0});
  const auto least = gradients([](const Tensor& x, const Tensor& y) { return ct::minimum(x, y); }, a, b);
  check_values(least.a, {0.5, 1, 0});
  check_values(least.b, {0.5, 0, 1});
  const Tensor n = ct::tensor({kNaN, 1.0}), m = ct::tensor({1.0, kNaN});
  check_values(ct::maximum(n, m), {kNaN, kNaN});
  check_values(ct::minimum(n, m), {kNaN, kNaN});
  check_values(ct::maximum(n, 3), {kNaN, 3});
}

TEST_CASE("dtypes of results follow PyTorch's promotion", "[binary]") {
  const Tensor f = ct::tensor({1.5, 2.5}), i = ct::tensor({1, 2}), n = i.to(ct::i32), h = f.to(ct::f16);
  const Tensor m = ct::tensor({true, false});
  CHECK((f + i).dtype() == ct::f32);
  CHECK((h + i).dtype() == ct::f16);
  CHECK((h + f).dtype() == ct::f32);
  CHECK((h + f.to(ct::bf16)).dtype() == ct::f32);
  CHECK((n + i).dtype() == ct::i64);
  CHECK((i + 2).dtype() == ct::i64);
  CHECK((i + 0.5).dtype() == ct::f32);
  CHECK((h * 0.5).dtype() == ct::f16);
  CHECK((h + ct::tensor(2.0)).dtype() == ct::f16);  // rank 0 of the same category
  CHECK((n + ct::tensor(2)).dtype() == ct::i32);
  CHECK((n + ct::tensor(2.0)).dtype() == ct::f32);
  CHECK((i / n).dtype() == ct::f32);
  check_values(i / n, {1, 1});
  check_values(i / 2, {0.5, 1});
  CHECK((f * m).dtype() == ct::f32);
  check_values(f * m, {1.5, 0});
  CHECK((m + 1).dtype() == ct::i64);
  CHECK_THROWS_AS(m + m, ct::DTypeError);
  CHECK_THROWS_AS(ct::add(m, true), ct::DTypeError);
  CHECK_THROWS_AS(ct::sub(m, true), ct::DTypeError);
  CHECK_THROWS_AS(ct::add(true, m), ct::DTypeError);
  CHECK(ct::add(m, 1).dtype() == ct::i64);
  const Tensor bytes = ct::full({2}, 200, {.dtype = ct::u8});
  for (const int exponent : {0, 1, 2, 3, 4})
    CHECK_THROWS_WITH(ct::pow(bytes, exponent), Catch::Contains("[pow] the base is u8[2]"));
  CHECK_THROWS_AS(ct::pow(m, true), ct::DTypeError);
  CHECK_THROWS_WITH(ct::maximum(bytes, 300),
                    "[maximum] the value 300 does not fit into u8, which holds 0 to 255; pass one of "
                    "those, or use another dtype");
  CHECK_THROWS_AS(ct::minimum(-1, bytes), ct::ValueError);
  CHECK(ct::maximum(bytes, 255).to_vector<int>() == std::vector<int>{255, 255});
  CHECK(ct::maximum(bytes, 300.0).dtype() == ct::f32);
  CHECK_THROWS_AS(ct::add(i, i, 0.5), ct::DTypeError);
  check_values(ct::pow(i, 2), {1, 4});
  CHECK(ct::pow(i, 2).dtype() == ct::i64);
  CHECK(ct::pow(i, 2.0).dtype() == ct::f32);
  check_values(ct::pow(ct::tensor({2, -1, 3}), ct::tensor({-1, -3, 4})), {0, -1, 81});
  CHECK_THROWS_AS(ct::pow(i, -2), ct::ValueError);
  CHECK(ct::tensor({250, 10}, {.dtype = ct::u8}).to(ct::u8).dtype() == ct::u8);
  check_values(ct::tensor({250, 10}, {.dtype = ct::u8}) + 10, {4, 20});
  constexpr std::int64_t big = (std::int64_t{1} << 53) + 1;  // not a double
  CHECK((ct::tensor({big}) + 0).item<std::int64_t>() == big);
  CHECK((ct::tensor({big}) * ct::tensor({std::int64_t{1}})).item<std::int64_t>() == big);
}

TEST_CASE("comparisons and logic give bools", "[binary]") {
  const Tensor a = ct::tensor({1.0, 2.0, kNaN}), b = ct::tensor({1.0, 3.0, kNaN});
  check_bools(ct::eq(a, b), {true, false, false});
  check_bools(ct::ne(a, b), {false, true, true});
  check_bools(a < b, {false, true, false});
  check_bools(a <= b, {true, true, false});
  check_bools(a > b, {false, false, false});
  check_bools(a >= b, {true, false, false});
  check_bools(ct::eq(a, 2), {false, true, false});
  check_bools(ct::ne(a, 2), {true, false, true});
  check_bools(a < 2, {true, false, false});
  check_bools(2 > a, {true, false, false});
  check_bools(2 <= a, {false, true, false});
  check_bools(ct::tensor({1, 2}) < 1.5, {true, false});
  // Integers and a floating number: f32 would round both.
  const Tensor whole = ct::tensor({std::int64_t{16777217}, INT64_MAX, INT64_MIN});
  check_bools(ct::eq(whole, 16777216.0), {false, false, false});
  check_bools(ct::eq(whole, 0x1p63), {false, false, false});
  check_bools(ct::ge(whole, 0x1p63), {false, false, false});
  check_bools(ct::lt(whole, 0x1p63), {true, true, true});
  check_bools(ct::eq(whole, -0x1p63), {false, false, true});
  check_bools(ct::gt(whole, 16777216.5), {true, true, false});
  check_bools(ct::le(whole, 16777216.5), {false, false, true});
  check_bools(ct::ne(whole, 16777217.5), {true, true, true});
  check_bools(ct::eq(whole, kNaN), {false, false, false});
  check_bools(ct::lt(ct::tensor({1, 200}).to(ct::u8), 300.5), {true, true});
  check_bools(ct::eq(ct::tensor({0.1}).to(ct::f16), 0.1), {true});
  check_bools(ct::tensor({{1, 2}, {3, 4}}) > ct::tensor({2, 3}), {false, false, true, true});
  const Tensor x = ct::tensor({0, 0, 2, -1}), y = ct::tensor({0.0, 0.5, 0.0, 3.0});
  check_bools(ct::logical_and(x, y), {false, false, false, true});
  check_bools(ct::logical_or(x, y), {false, true, true, true});
  check_bools(ct::logical_xor(x, y), {false, true, true, false});
  check_bools(ct::logical_not(x), {true, true, false, false});
  Tensor leaf = ct::tensor({1.0});
  leaf.set_requires_grad();
  CHECK_FALSE((leaf > 0).requires_grad());
}

TEST_CASE("changes in place", "[binary]") {
  Tensor x = ct::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  x += ct::tensor({10.0, 20.0, 30.0});
  check_values(x, {11, 22, 33, 14, 25, 36});
  x -= 1;
  x *= ct::tensor({{1.0}, {2.0}});
  check_values(x, {10, 21, 32, 26, 48, 70});
  x /= 2;
  check_values(x, {5, 10.5, 16, 13, 24, 35});
  Tensor column = x.select(1, 0);  // a strided view: only its own elements change
  column.mul_(ct::tensor({2.0, 3.0}));
  check_values(x, {10, 10.5, 16, 39, 24, 35});
  Tensor t = x.t();
  t += 1;
  check_values(x, {11, 11.5, 17, 40, 25, 36});
  x.add_(x.select(0, 0));  // reads what it is about to overwrite
  check_values(x, {22, 23, 34, 51, 36.5, 53});
  const Tensor& itself = x;
  x /= itself;
  check_values(x, {1, 1, 1, 1, 1, 1});

  Tensor i = ct::tensor({4, 6});
  i += 2;
  check_values(i, {6, 8});
  CHECK_THROWS_AS(i += 0.5, ct::DTypeError);
  CHECK_THROWS_AS(i /= 2, ct::DTypeError);
  CHECK_THROWS_AS(i += ct::tensor({0.5, 0.5}), ct::DTypeError);
  check_values(i, {6, 8});
  CHECK_THROWS_AS(x.add_(ct::zeros({2, 2, 3})), ct::ShapeError);
  Tensor shared = ct::zeros({1}).expand({3});  // three elements in one place: adding would add three times
  CHECK_THROWS_WITH(shared.add_(1.0), Catch::Contains("[add_scalar] axis 0 of f32[3] is expanded"));
  CHECK(shared.to_vector<float>() == std::vector<float>{0, 0, 0});
  Tensor h = ct::tensor({1.0, 2.0}).to(ct::f16);
  h += ct::tensor({0.5, 0.5});
  CHECK(h.dtype() == ct::f16);
  check_values(h, {1.5, 2.5});
}

TEST_CASE("add and sub pass the cotangent on without a copy", "[binary]") {
  Tensor a = ct::tensor({1.0, 2.0}), b = ct::tensor({3.0, 4.0});
  a.set_requires_grad();
  b.set_requires_grad();
  const Tensor g = ct::tensor({5.0, 6.0});
  for (const Tensor& y : {ct::add(a, b), ct::sub(a, b)}) {
    const Tensor inputs[] = {a, b};
    const std::vector<Tensor> grads = ct::grad({y}, inputs, {g}, {.retain_graph = true});
    CHECK(grads[0].raw_data() == g.raw_data());
    CHECK((grads[1].raw_data() == g.raw_data()) == (y.grad_fn_name() == "add"));
  }
}
