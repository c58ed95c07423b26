#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "tests/autograd_testing.h"
#include "tests/catch.h"
#include "tests/op_testing.h"

using namespace ct;
using Catch::Contains;
using ct::testing::message_of;

namespace {

using V = std::vector<double>;

using testing::values;
Tensor normal(const Shape& shape) { return randn(shape, {.dtype = f64}); }

// The definition: every value of every letter, one after the other.
Tensor by_definition(const std::string& equation, const std::vector<Tensor>& operands,
                     std::map<char, std::int64_t> sizes) {
  const std::size_t arrow = equation.find("->");
  const std::string result = equation.substr(arrow + 2), terms = equation.substr(0, arrow) + ",";
  Shape shape;
  for (const char c : result) shape.push_back(sizes[c]);
  Tensor out = zeros(shape, {.dtype = f64});
  std::map<char, std::int64_t> at;
  const auto place = [&](const Tensor& t, const std::string& letters) {
    std::int64_t i = 0;
    for (std::size_t a = 0; a < letters.size(); ++a)
      i = i * t.size(static_cast<std::int64_t>(a)) +
          (t.size(static_cast<std::int64_t>(a)) == 1 ? 0 : at[letters[a]]);
    return t.contiguous().data<double>()[i];
  };
  std::int64_t all = 1;
  for (const auto& [letter, size] : sizes) all *= size;
  for (std::int64_t n = 0; n < all; ++n) {
    std::int64_t rest = n;
    for (const auto& [letter, size] : sizes) {
      at[letter] = rest % size;
      rest /= size;
    }
    double product = 1;
    std::size_t begin = 0;
    for (const Tensor& t : operands) {
      const std::size_t end = terms.find(',', begin);
      product *= place(t, terms.substr(begin, end - begin));
      begin = end + 1;
    }
    std::int64_t i = 0;
    for (const char c : result) i = i * sizes[c] + at[c];
    out.data<double>()[i] += product;
  }
  return out;
}

}  // namespace

TEST_CASE("einsum is its definition", "[matmul][einsum]") {
  const std::map<char, std::int64_t> all{{'a', 2}, {'b', 3}, {'c', 4}, {'d', 2}, {'e', 3}};
  for (const std::string equation :
       {"ab,bc->ac",      "ab,bc->ca",   "ab,ab->",     "ab,ab->ab",    "a,b->ab",     "a,b->ba",
        "abc->",          "abc->cab",    "abc->b",      "aa->a",        "aa->",        "aba->ba",
        "abab->ab",       "abc,cbd->ad", "abc,abd->dc", "ab,bc,cd->ad", "ab,b,bc->c",  "a,a,a->a",
        "abc,ad,be->cde", "ab,cd->abcd", "ac,bc->abc",  ",ab->ba",      "abe,ceb->ac", "aab,b->a"}) {
    INFO(equation);
    std::vector<Tensor> operands;
    std::map<char, std::int64_t> sizes;
    const std::string terms = equation.substr(0, equation.find("->")) + ",";
    for (std::size_t begin = 0; begin < terms.size();) {
      const std::size_t end = terms.find(',', begin);
      Shape shape;
      for (const char c : terms.substr(begin, end - begin)) {
        sizes[c] = all.at(c);
        shape.push_back(all.at(c));
      }
      operands.push_back(normal(shape).set_requires_grad());
      begin = end + 1;
    }
    const Tensor wanted = by_definition(equation, operands, sizes), got = einsum(equation, operands);
    CHECK(got.shape() == wanted.shape());
    CHECK(max(abs(got.detach() - wanted)).item() < 1e-12);
    CHECK(
        gradcheck([&](const std::vector<Tensor>& x) { return std::vector{einsum(equation, x)}; }, operands));
  }
}

TEST_CASE("einsum reads spaces, dots, and equations without a result", "[matmul][einsum]") {
  const Tensor a = normal({2, 3}), b = normal({3, 4}), s = normal({5, 2, 3}), one = normal({1, 3});
  const auto same = [](const Tensor& x, const Tensor& y) {
    return x.shape() == y.shape() && max(abs(x - y)).item() < 1e-12;
  };
  CHECK(same(einsum(" i j , j k -> i k ", {a, b}), matmul(a, b)));
  CHECK(same(einsum("ij,jk", {a, b}), matmul(a, b)));
  CHECK(same(einsum("ba", {a}), a.t()));
  CHECK(einsum("ii", {normal({3, 3})}).dim() == 0);
  CHECK(same(einsum("...j,jk->...k", {s, b}), matmul(s, b)));
  CHECK(same(einsum("...ij,jk", {s, b}), matmul(s, b)));
  CHECK(same(einsum("i...->...i", {s}), s.permute({1, 2, 0})));
  CHECK(same(einsum("...,...->...", {s, a}), s * a));
  CHECK(same(einsum("ij,ij->i", {a, one}), sum(a * one, {1})));
  CHECK(same(einsum("i...,i...->...", {a, normal({2, 1}) * 0 + 1}), sum(a, {0})));
  CHECK(einsum("ij,jk->ik", {normal({2, 0}), normal({0, 3})}).shape() == Shape{2, 3});
  CHECK(values(einsum("ij,jk->ik", {normal({2, 0}), normal({0, 3})})) == V(6, 0));
  const Tensor n = from_vector<std::int32_t>({1, 2, 3, 4}, {2, 2});
  CHECK(einsum("ij,jk->ik", {n, n}).dtype() == i32);
  CHECK(values(einsum("ij->j", {n})) == V{4, 6});
  CHECK(einsum("ij->j", {n}).dtype() == i32);
}

TEST_CASE("einsum refuses what it cannot read", "[matmul][einsum]") {
  const Tensor a = normal({2, 3}), b = normal({3, 4});
  const auto says = [](const std::string& part, const std::string& equation, std::vector<Tensor> operands) {
    INFO(equation);
    CHECK_THAT(message_of<ShapeError>([&] { einsum(equation, operands); }), Contains(part));
  };
  says("has 1 terms for 2 operands", "ij->ij", {a, b});
  says("names 1 axes of operand 0, which is f64[2, 3]", "i,jk->ik", {a, b});
  says("has \"1j\"", "i1j,jk->ik", {a, b});
  says("\"j\" of equation \"ij,jk->ik\" is 3 and, in operand 1, which is f64[2, 3], 2", "ij,jk->ik", {a, a});
  says("has 'z'", "ij,jk->iz", {a, b});
  says("has 'i'", "ij,jk->ii", {a, b});
  says("write \"...\" there too", "...j,jk->k", {a, b});
  says("\"...\"", "......,jk->k", {a, b});
  says("\"i\" of equation \"ii\"", "ii", {a});
  says("undefined", "ij", {Tensor()});
  says("has 1 terms for 0 operands", "", {});
  CHECK_THROWS_AS(einsum("ij,jk->ik", {a, b.to(f32)}), DTypeError);
}

TEST_CASE("tensordot, outer and bilinear", "[matmul]") {
  const Tensor a = normal({2, 3, 4}), b = normal({4, 3, 5}), v = normal({3}), w = normal({4});
  const auto same = [](const Tensor& x, const Tensor& y) {
    return x.shape() == y.shape() && max(abs(x - y)).item() < 1e-12;
  };
  CHECK(same(tensordot(a, b, {1, 2}, {1, 0}), einsum("abc,cbd->ad", {a, b})));
  CHECK(same(tensordot(a, b, {-1}, {0}), einsum("abc,cde->abde", {a, b})));
  CHECK(same(tensordot(a, b, 1), tensordot(a, b, {2}, {0})));
  CHECK(same(tensordot(a, a.permute({1, 2, 0})), einsum("abc,bcd->ad", {a, a.permute({1, 2, 0})})));
  CHECK(same(tensordot(v, w, 0), outer(v, w)));
  CHECK(same(outer(v, w), einsum("i,j->ij", {v, w})));
  CHECK_THROWS_AS(tensordot(a, b, 4), ShapeError);
  CHECK_THROWS_AS(tensordot(a, b, 1 - 2), ShapeError);
  CHECK_THROWS_AS(tensordot(a, b, {1}, {0}), ShapeError);
  CHECK_THROWS_AS(tensordot(a, scalar(2.5f), {1}, {0}), ShapeError);  // a scalar has no axis to sum over
  CHECK_THROWS_AS(tensordot(a, b, {1, 1}, {1, 1}), ShapeError);
  CHECK_THROWS_AS(tensordot(a, b, {1}, {1, 0}), ShapeError);
  CHECK_THROWS_AS(tensordot(a, b, {3}, {0}), ShapeError);
  CHECK_THROWS_AS(outer(a, v), ShapeError);

  const Tensor x1 = normal({2, 6, 3}), x2 = normal({2, 6, 4}), weight = normal({5, 3, 4}), bias = normal({5});
  CHECK(same(bilinear(x1, x2, weight, bias), einsum("bti,oij,btj->bto", {x1, weight, x2}) + bias));
  CHECK(same(bilinear(x1, x2, weight), bilinear(x1, x2, weight, bias * 0)));
  CHECK_THROWS_AS(bilinear(x1, x1, weight), ShapeError);
  CHECK_THROWS_AS(bilinear(x1, x2, weight, v), ShapeError);
  CHECK(gradcheck([](auto& a, auto& b, auto& w, auto& c) { return bilinear(a, b, w, c); },
                  {x1, x2, weight, bias}));
}

TEST_CASE("addmm and baddbmm", "[matmul]") {
  const Tensor a = normal({2, 3}), b = normal({3, 4}), x = normal({4});
  const auto distance = [](const Tensor& p, const Tensor& q) { return max(abs(p - q)).item(); };
  CHECK(distance(addmm(x, a, b), x + matmul(a, b)) < 1e-12);
  CHECK(distance(addmm(x, a, b, {.beta = 2, .alpha = -0.5}), 2 * x - 0.5 * matmul(a, b)) < 1e-12);
  CHECK(distance(addmm(x * std::nan(""), a, b, {.beta = 0}), matmul(a, b)) == 0);
  CHECK_THROWS_AS(addmm(normal({3}), a, b), ShapeError);
  CHECK_THROWS_AS(addmm(normal({3}), a, b, {.beta = 0}), ShapeError);
  CHECK_THROWS_AS(addmm(normal({5, 2, 4}), a, b), ShapeError);
  CHECK_THROWS_AS(addmm(x, normal({5, 2, 3}), b), ShapeError);
  const Tensor p = normal({5, 2, 3}), q = normal({5, 3, 4}), y = normal({5, 1, 4});
  CHECK(distance(baddbmm(y, p, q, {.alpha = 3}), y + 3 * matmul(p, q)) < 1e-12);
  CHECK(gradcheck([](auto& c, auto& m, auto& n) { return addmm(c, m, n, {.beta = 2, .alpha = 3}); },
                  {x, a, b}));
}

TEST_CASE("cdist is the norms of all differences", "[matmul]") {
  const Tensor x = from_vector<double>({0, 0, 3, 4}, {2, 2}),
               y = from_vector<double>({0, 0, 3, 0, 0, 8}, {3, 2});
  CHECK(values(cdist(x, y)) == V{0, 3, 8, 5, 4, 5});
  CHECK(values(cdist(x, y, 1)) == V{0, 3, 8, 7, 4, 7});
  CHECK(values(cdist(x, y, 0)) == V{0, 1, 1, 2, 1, 2});
  CHECK(values(cdist(x, y, std::numeric_limits<double>::infinity())) == V{0, 3, 8, 4, 4, 4});
  CHECK(cdist(normal({4, 1, 5, 2}), normal({3, 6, 2})).shape() == Shape{4, 3, 5, 6});
  CHECK(cdist(normal({0, 2}), y).shape() == Shape{0, 3});
  const Tensor leaf = x.clone().set_requires_grad();
  sum(cdist(leaf, y)).backward();
  CHECK(norm(leaf.grad()).item() < 10);
  CHECK(gradcheck([](auto& a, auto& b) { return cdist(a, b); }, {normal({3, 2}), normal({4, 2})}));
  CHECK_THROWS_AS(cdist(x, normal({3, 3})), ShapeError);
  CHECK_THROWS_AS(cdist(x, normal({2})), ShapeError);
  CHECK_THROWS_AS(cdist(x, y, -1), ValueError);
}

TEST_CASE("cdist of rows of no elements is 0", "[products]") {
  for (const double p : {0.0, 1.0, 2.0, 3.0, HUGE_VAL}) {
    const Tensor x = zeros({2, 0}).set_requires_grad(), y = zeros({4, 3, 0});
    const Tensor apart = cdist(x, y, p);
    CHECK(apart.shape() == Shape{4, 2, 3});
    CHECK(values(apart) == V(24, 0.0));
    apart.sum().backward();
    CHECK(x.grad().shape() == x.shape());
  }
}
