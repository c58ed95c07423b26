#include <array>
#include <limits>
#include <utility>

#include <cotangent/cotangent.h>

#include "tests/catch.h"

// Meaning of everyday calls, and the conversions that exist. Calls that must not compile are in
// tests/checks/refused.cpp, with the compiler's messages.

using ct::BFloat16;
using ct::Dims;
using ct::Half;
using ct::Scalar;
using ct::Shape;
using ct::Tensor;
using ct::TensorList;

namespace {

enum Plain { first };
enum class Scoped { first };

// A handle that is passed around, and one that is asked for its truth.
static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
static_assert(std::is_copy_constructible_v<Tensor> && std::is_copy_assignable_v<Tensor>);
static_assert(std::is_swappable_v<Tensor> && !std::is_assignable_v<const Tensor&, Tensor>);
static_assert(std::is_assignable_v<Tensor, Tensor> && std::is_assignable_v<Tensor, float>);
static_assert(!std::is_assignable_v<Tensor&, float> && !std::is_assignable_v<Tensor, const char*>);
static_assert(std::is_constructible_v<bool, Tensor> && !std::is_convertible_v<Tensor, bool>);
static_assert(!std::is_convertible_v<bool, Tensor> && !std::is_constructible_v<bool, ct::nn::Parameter>);
static_assert(std::is_same_v<decltype(!Tensor()), Tensor>);

// Scalars come from numbers and bools.
template <class... T>
constexpr bool scalars = (std::is_convertible_v<T, Scalar> && ...);
template <class... T>
constexpr bool no_scalar = (!std::is_constructible_v<Scalar, T> && ...);
static_assert(scalars<bool, int, unsigned, long long, std::size_t, std::int8_t, std::uint8_t, short, float,
                      double, long double, Half, BFloat16>);
static_assert(no_scalar<const char*, float*, std::nullptr_t, char, wchar_t, char8_t, Plain, Scoped, Tensor>);
static_assert(Scalar(true).kind() == Scalar::Kind::boolean && Scalar(1u).kind() == Scalar::Kind::integer);
static_assert(Scalar(Half(0.5f)).is_floating() && Scalar(BFloat16(0.5f)).to<double>() == 0.5);

// Shapes come from whole numbers.
template <class... T>
constexpr bool shapes = (std::is_convertible_v<T, Shape> && ...);
static_assert(
    shapes<int, std::size_t, std::int64_t, std::uint8_t, std::vector<int>, std::vector<std::size_t>,
           std::array<long long, 2>, std::span<const std::int64_t>, std::initializer_list<ct::Integer>>);
static_assert(!std::is_constructible_v<Shape, double> && !std::is_constructible_v<Shape, bool> &&
              !std::is_constructible_v<Shape, const char*> && !std::is_constructible_v<Shape, std::string> &&
              !std::is_constructible_v<Shape, std::vector<double>> && !std::is_constructible_v<Shape, Plain>);
static_assert(std::is_convertible_v<int, ct::Real> && !std::is_convertible_v<bool, ct::Real> &&
              !std::is_convertible_v<double, ct::Integer> && !std::is_convertible_v<char, ct::Integer> &&
              std::is_convertible_v<Plain, ct::Integer> && !std::is_convertible_v<Scoped, ct::Integer> &&
              !std::is_convertible_v<int, ct::Flag> && !std::is_convertible_v<const char*, ct::Flag>);
static_assert(std::is_convertible_v<std::vector<Tensor>, TensorList> &&
              std::is_convertible_v<Tensor (&)[2], TensorList> && !std::is_convertible_v<Tensor, TensorList>);

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

}  // namespace

TEST_CASE("assignment to a view without a name writes", "[api]") {
  Tensor x = ct::zeros({2, 2});
  x[0] = ct::tensor({1.f, 2.f});
  CHECK(values(x) == std::vector<float>{1, 2, 0, 0});
  x[1][0] = 3.f;
  x[1][1] = x[0][1];
  CHECK(values(x) == std::vector<float>{1, 2, 3, 2});
  x.select(1, 0) = ct::tensor({5, 6});  // converted, as copy_ does
  x.slice(1, 1) = 7;
  CHECK(values(x) == std::vector<float>{5, 7, 6, 7});
  x[0] += x[1];
  x[1] *= 2;
  x.t()[0] -= 1;
  x.view(-1).narrow(0, 1, 1) /= 2;
  CHECK(values(x) == std::vector<float>{10, 7, 11, 14});
  x[0] = x[1] = ct::ones({});
  CHECK(values(x) == std::vector<float>{1, 1, 1, 1});
  const Tensor same = x;  // the data of a const handle is not const
  same[0] = 4;
  CHECK(values(x) == std::vector<float>{4, 4, 1, 1});
  CHECK_THROWS_AS(x[0] = ct::ones({3}), ct::ShapeError);
  CHECK_THROWS_AS(x[2] = 1, ct::IndexError);
}

TEST_CASE("assignment to a tensor with a name makes it another handle", "[api]") {
  Tensor x = ct::zeros({2, 2});
  const Tensor y = ct::ones({2});
  Tensor row = x[0];
  row = y;
  CHECK(row.is_same(y));
  auto other = x[1];
  other = {};
  CHECK(!other.defined());
  std::vector<Tensor> results(2);
  results[0] = y;
  results[1] = x[1];
  results.insert(results.begin(), x[0]);
  results.erase(results.begin() + 1);
  std::swap(results[0], results[1]);
  CHECK(results.size() == 2);
  std::tie(row, other) = std::pair(y, x);
  CHECK((row.is_same(y) && other.is_same(x)));
  CHECK(std::exchange(other, y).is_same(x));
  CHECK(values(x) == std::vector<float>(4));
}

TEST_CASE("an assignment that nobody would see throws", "[api]") {
  Tensor x = ct::zeros({2, 3});
  const Tensor y = ct::ones({3});
  CHECK_THROWS_WITH(x.clone() = y, Catch::Contains("a temporary whose memory no other tensor shares"));
  CHECK_THROWS_AS((x + 1) = 2, ct::ValueError);
  CHECK_THROWS_AS(x.to(ct::f64) += y, ct::ValueError);
  CHECK_THROWS_AS(x.t().reshape({6}) = 1, ct::ValueError);  // a copy
  CHECK_THROWS_AS(Tensor() = y, ct::Error);
  x.reshape({6}) = 1;  // a view
  x.to(ct::f32) += 1;  // x itself
  float memory[2] = {};
  ct::from_blob(memory, {2}) = 5;
  CHECK((values(x) == std::vector<float>(6, 2) && memory[1] == 5));
}

TEST_CASE("assignment to a view keeps to the rules of the tape", "[api]") {
  Tensor w = ct::ones({2, 2}).set_requires_grad();
  CHECK_THROWS_AS(w[0] = 1, ct::AutogradError);
  CHECK_THROWS_AS((w * 2)[0] += 1, ct::AutogradError);
  Tensor plain = ct::zeros({2, 2});
  CHECK_THROWS_AS(plain[0] = w[0], ct::AutogradError);
  CHECK_THROWS_AS(plain[0] += w[0], ct::AutogradError);
  CHECK(values(plain) == std::vector<float>(4));
  const Tensor loss = ct::sum(w * w);
  {
    const ct::NoGrad guard;
    w[0] = 3;
  }
  CHECK(values(w) == std::vector<float>{3, 3, 1, 1});
  CHECK_THROWS_AS(loss.backward(), ct::AutogradError);  // a saved tensor was changed
  w.set_grad(ct::zeros({2, 2}));
  w.grad() = 2;
  CHECK(values(w.grad()) == std::vector<float>(4, 2));
}

TEST_CASE("a tensor is as true as its one element", "[api]") {
  const Tensor mask = ct::tensor({true, false}), yes = ct::ones({1, 1}), no = ct::tensor(0);
  CHECK((yes && !no && (yes || no) && !(yes && no)));
  CHECK((ct::any(mask) && !ct::all(mask)));
  CHECK(bool(ct::tensor(std::numeric_limits<float>::quiet_NaN())));
  CHECK_THROWS_AS(bool(mask), ct::ShapeError);
  CHECK_THROWS_AS(bool(ct::zeros({0})), ct::ShapeError);
  CHECK_THROWS_WITH(mask && mask, Catch::Contains("logical_and()"));
  CHECK_THROWS_WITH(bool(Tensor()), Catch::Contains("undefined"));
  CHECK((!mask).to_vector<bool>() == std::vector<bool>{false, true});
  int rounds = 0;
  for (Tensor left = ct::tensor({3.f}); rounds < 9 && left > 0; left -= 1) ++rounds;
  CHECK(rounds == 3);
}

TEST_CASE("chained comparisons throw", "[api]") {
  const Tensor x = ct::tensor({-1.f, 0.5f, 2.f});
  CHECK_THROWS_WITH(0 < x < 1, Catch::Contains("logical_and(a < b, b < c)"));
  CHECK_THROWS_AS((x > 0) >= x, ct::DTypeError);
  CHECK(ct::logical_and(0 < x, x < 1).to_vector<bool>() == std::vector<bool>{false, true, false});
  CHECK(ct::lt(x > 0, x > 1).to_vector<bool>() == std::vector<bool>(3));
}

TEST_CASE("parameters take part in expressions", "[api]") {
  const ct::nn::Linear layer(2, 2);
  {
    const ct::NoGrad guard;
    layer.weight().tensor()[0] = 2;
    layer.weight().tensor()[1] = 4;
    layer.bias().tensor().view(-1) = 1;
  }
  CHECK(values(layer.weight() * 2) == std::vector<float>{4, 4, 8, 8});
  CHECK(values(1 - layer.weight() / layer.bias()) == std::vector<float>{-1, -1, -3, -3});
  CHECK(values(-layer.bias()) == std::vector<float>{-1, -1});
  CHECK((layer.weight() > 3).to_vector<bool>() == std::vector<bool>{false, false, true, true});
}

TEST_CASE("lists of tensors are written in braces", "[api]") {
  const Tensor x = ct::ones({2}).set_requires_grad(), y = ct::ones({2}).set_requires_grad();
  const Tensor loss = ct::sum(x * y * 3);
  const std::vector<Tensor> got = ct::grad({loss}, {x, y}, {ct::tensor(2.f)}, {.retain_graph = true});
  CHECK((values(got[0]) == std::vector<float>{6, 6} && values(got[1]) == values(got[0])));
  ct::backward({loss, ct::sum(x)});
  CHECK(values(x.grad()) == std::vector<float>{4, 4});
  const std::array<Tensor, 2> both = {x, y};
  CHECK(ct::concat({x, y}).numel() + ct::stack(both, 1).dim() + ct::concat(std::vector<Tensor>{x}).dim() ==
        7);
  CHECK_THROWS_AS(ct::concat({}), ct::ValueError);
}

TEST_CASE("elements are read as any number", "[api]") {
  const Tensor x = ct::tensor({1.5, -2.0, 3e9}, {.dtype = ct::f64});
  CHECK(x.to_vector<long long>() == std::vector<long long>{1, -2, 3000000000});
  CHECK(x.to_vector<unsigned>() == std::vector<unsigned>{1, 4294967294u, 3000000000u});
  CHECK(x.to_vector<std::size_t>()[2] == 3000000000u);
  CHECK(x.to_vector<std::int8_t>() == std::vector<std::int8_t>{1, -2, 0});
  CHECK(x.to_vector<long double>()[0] == 1.5L);
  CHECK((x[2].item<unsigned>() == 3000000000u && x[1].item<short>() == -2 &&
         x[1].item<unsigned>() == 4294967294u));
}

TEST_CASE("a view of an empty tensor has no address", "[api]") {
  const Tensor empty = ct::zeros({0, 8});
  CHECK(empty.raw_data() == nullptr);
  CHECK(empty.narrow(1, 4, 4).raw_data() == nullptr);
}

TEST_CASE("sizes and axes are numbers, lists and vectors", "[api]") {
  const std::vector<std::int64_t> sizes = {2, 3};
  const std::size_t n = 3;
  CHECK(ct::zeros(3).shape() == Shape{3});
  CHECK(ct::zeros(sizes).shape() == Shape{2, 3});
  CHECK(ct::zeros(std::vector<int>{4}).shape() == Shape{4});
  CHECK(ct::zeros({n, 2}).shape() == Shape{3, 2});
  CHECK(ct::zeros({}).dim() == 0);
  CHECK((ct::full(2, 3).shape() == Shape{2} && ct::full(2, 3)[0].item<int>() == 3));
  const Tensor x = ct::arange(6).view(2, -1);
  CHECK(x.shape() == Shape{2, 3});
  CHECK((x.view(-1).shape() == Shape{6} && x.reshape(n, 2).shape() == Shape{3, 2}));
  CHECK((x.permute(1, 0).shape() == Shape{3, 2} && x[0].expand(4, -1).shape() == Shape{4, 3}));
  CHECK(ct::sum(x, 0).to_vector<int>() == std::vector<int>{3, 5, 7});
  CHECK(ct::sum(x, -1, true).shape() == Shape{2, 1});
  CHECK(ct::sum(x, sizes.size() - 1).numel() == 2);
  CHECK_THROWS_AS(ct::zeros(-1), ct::ShapeError);
  CHECK_THROWS_AS(ct::zeros(std::vector<int>(9, 1)), ct::ShapeError);
}

TEST_CASE("assignment and truth on the GPU", "[api][cuda]") {
  Tensor x = ct::zeros({2, 2}, {.device = ct::cuda()});
  x[0] = ct::tensor({1.f, 2.f});  // from the CPU
  x[1] = x[0] * 2;
  x[1][1] += 5;
  CHECK(values(x) == std::vector<float>{1, 2, 2, 9});
  CHECK((ct::any(x > 8) && !ct::all(x > 8)));
  CHECK_THROWS_AS(bool(x), ct::ShapeError);
}
