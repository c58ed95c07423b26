#include <cotangent/ops/fusion/fuse.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <cotangent/autograd/engine.h>
#include <cotangent/autograd/functional.h>
#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/core/op/op_observer.h>
#include <cotangent/ops/autocast.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/testing/gradcheck.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

using ct::DType;
using ct::Tensor;
using ct::testing::leaf;

namespace {

// Whether two tensors have the same shape, dtype and bits; any NaN equals any other.
bool same_bits(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  const std::vector<double> x = a.detach().to_vector<double>(), y = b.detach().to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(&x[i], &y[i], sizeof x[i]) != 0 && !(std::isnan(x[i]) && std::isnan(y[i]))) return false;
  return true;
}

}  // namespace

TEST_CASE("fuse gives the bits of the ops one by one, and their gradients", "[fuse]") {
  const auto gelu_of_sum = [](auto x, auto b) { return gelu(x + b); };
  const auto f = ct::fuse(gelu_of_sum);
  for (const DType dtype : {ct::f32, ct::f64}) {
    const Tensor x = ct::testing::waves({37, 65}, 0.3, 2).to(dtype),
                 b = ct::testing::waves({65}, 1, 0.5).to(dtype);
    const Tensor g = ct::testing::waves({37, 65}, 2, 1).to(dtype);
    Tensor x1 = leaf(x), b1 = leaf(b), x2 = leaf(x), b2 = leaf(b);
    const Tensor y = f(x1, b1), want = gelu_of_sum(x2, b2);
    CHECK(same_bits(y, want));
    y.backward(g);
    want.backward(g);
    CHECK(same_bits(x1.grad(), x2.grad()));
    CHECK(same_bits(b1.grad(), b2.grad()));
  }
  CHECK_THAT(f.explain(), Catch::Contains("forward: 2 steps in 1 pass"));
}

TEST_CASE("fuse reads operators, functions, numbers, comparisons and casts", "[fuse]") {
  const auto formula = [](auto x, auto y, auto mask) {
    const auto bounded = clamp(2 * x - 1, -0.5, std::nullopt);
    const auto mixed = where(mask, pow(bounded, 2) + pow(2.0, y), maximum(x, 0.25) / (1 + abs(y)));
    return where(logical_and(x < y, !mask), softplus(mixed, 2), leaky_relu(-mixed, 0.1)) +
           gelu(y, ct::Gelu::tanh).to(ct::bf16);
  };
  const auto f = ct::fuse(formula);
  const Tensor mask = ct::gt(ct::testing::waves({9, 31}, 3), 0.2);
  for (const DType dtype : {ct::f32, ct::f64}) {
    const Tensor x = ct::testing::waves({9, 31}, 0.3, 2).to(dtype),
                 y = ct::testing::waves({31}, 1.3, 2).to(dtype);
    Tensor x1 = leaf(x), y1 = leaf(y), x2 = leaf(x), y2 = leaf(y);
    const Tensor got = f(x1, y1, mask), want = formula(x2, y2, mask);
    CHECK(same_bits(got, want));
    got.sum().backward();
    want.sum().backward();
    CHECK(same_bits(x1.grad(), x2.grad()));
    CHECK(ct::testing::largest_difference(y1.grad(), y2.grad()) < (dtype == ct::f64 ? 1e-12 : 1e-4));
  }
  CHECK(f(ct::zeros({2}), ct::zeros({2}), ct::tensor({true, false})).dtype() == ct::f32);
  const auto positive = ct::fuse([](auto x) { return x > 0; });
  CHECK(positive(ct::tensor({-1.0, 2.0})).to_vector<bool>() == std::vector<bool>{false, true});
  const auto same = ct::fuse([](auto x) { return x; });
  CHECK(same(ct::tensor({-1.0, 2.0})).to_vector<float>() == std::vector<float>{-1, 2});
}

TEST_CASE("fuse takes tensors of any layout: empty, rank 0, strided, expanded, the same one twice",
          "[fuse]") {
  const auto formula = [](auto a, auto b) { return tanh(a * b + 0.5) - b; };
  const auto f = ct::fuse(formula);
  const auto check = [&](const Tensor& a, const Tensor& b) {
    Tensor a1 = a.detach().set_requires_grad(), b1 = b.detach().set_requires_grad();
    Tensor a2 = a.detach().set_requires_grad(), b2 = b.detach().set_requires_grad();
    const Tensor got = f(a1, b1), want = formula(a2, b2);
    CHECK(same_bits(got, want));
    got.sum().backward();
    want.sum().backward();
    CHECK(ct::testing::largest_difference(a1.grad(), a2.grad()) < 1e-4);
    CHECK(ct::testing::largest_difference(b1.grad(), b2.grad()) < 1e-4);
  };
  const Tensor x = ct::testing::waves({6, 10, 14}, 1).to(ct::f32);
  check(x, x);
  check(x.transpose(0, 2), x.transpose(0, 2).contiguous());
  check(x.slice(1, 1, 9, 3), x.slice(2, 0, 1).slice(1, 0, 3));
  check(x, ct::full({}, 0.5));
  check(ct::full({}, 0.5), ct::full({}, 2.0));
  check(x.slice(0, 0, 1).expand({6, 10, 14}), x);
  check(ct::zeros({0, 3}), ct::zeros({3}));
  check(ct::testing::waves({100003}, 2).to(ct::f32), ct::testing::waves({1}, 0).to(ct::f32));
  check(ct::testing::waves({700, 3}, 2).to(ct::f32), ct::testing::waves({3}, 0).to(ct::f32));
  // One tensor as both arguments: both gradients go to it.
  Tensor once = leaf(x), apart = leaf(x);
  f(once, once).sum().backward();
  formula(apart, apart).sum().backward();
  CHECK(ct::testing::largest_difference(once.grad(), apart.grad()) < 1e-5);
  const Tensor recorded = ct::grad(f(once, once).sum(), once, {.create_graph = true});
  CHECK(ct::testing::largest_difference(recorded, apart.grad()) < 1e-5);
}

TEST_CASE("fuse rounds 16 bits once, at the end", "[fuse]") {
  const auto formula = [](auto x, auto b) { return gelu(x + b) * x - exp(b); };
  const auto f = ct::fuse(formula);
  for (const DType dtype : {ct::f16, ct::bf16}) {
    const Tensor x = ct::testing::waves({50, 33}, 0.1, 2).to(dtype),
                 b = ct::testing::waves({33}, 0.7).to(dtype);
    Tensor x1 = leaf(x), b1 = leaf(b), x2 = leaf(x.to(ct::f32)), b2 = leaf(b.to(ct::f32));
    const Tensor got = f(x1, b1), want = formula(x2, b2);
    CHECK(same_bits(got, want.detach().to(dtype)));
    got.sum().backward();
    want.sum().backward();
    CHECK(same_bits(x1.grad(), x2.grad().to(dtype)));
    CHECK(ct::testing::largest_difference(b1.grad().to(ct::f32), b2.grad()) <
          (dtype == ct::f16 ? 0.05 : 0.4));
  }
  const auto narrowed = ct::fuse([](auto x) { return (x * 1.001).to(ct::bf16).to(ct::f32) + 1; });
  const Tensor x = ct::testing::waves({50}, 0.1, 2).to(ct::f32);
  CHECK(same_bits(narrowed(x), (x * 1.001).to(ct::bf16).to(ct::f32) + 1));
}

TEST_CASE("fuse of several results", "[fuse]") {
  const auto f = ct::fuse([](auto x, auto y) { return std::array{x * y, sin(x) + y, x}; });
  Tensor x = leaf(ct::testing::waves({5, 4}, 0.1)), y = leaf(ct::testing::waves({5, 4}, 1.1));
  const auto [product, sum, self] = f(x, y);
  CHECK(same_bits(product, x.detach() * y.detach()));
  CHECK(same_bits(sum, ct::sin(x.detach()) + y.detach()));
  CHECK(same_bits(self, x.detach()));
  // A result that no gradient flows back from, and one that some flows from.
  (product * 2).sum().backward();
  CHECK(same_bits(x.grad(), y.detach() * 2));
  const auto all = [&](const std::vector<Tensor>& in) {
    const auto results = f(in[0], in[1]);
    return std::vector<Tensor>(results.begin(), results.end());
  };
  CHECK(ct::gradcheck(all, {x.detach(), y.detach()}));
  CHECK(ct::gradgradcheck(all, {x.detach(), y.detach()}));
}

TEST_CASE("fuse has gradients of gradients, and jvp", "[fuse]") {
  const auto formula = [](auto x, auto b, auto w) {
    return gelu(x * w + b) * sigmoid(x) + where(x > 0.1, log1p(exp(b)), w);
  };
  const auto f = ct::fuse(formula);
  const Tensor x = ct::testing::waves({4, 5}, 0.1), b = ct::testing::waves({5}, 1.1),
               w = ct::testing::waves({4, 1}, 2.1);
  CHECK(ct::gradcheck(f, {x, b, w}));
  const ct::GradcheckResult second = ct::gradgradcheck(f, {x, b, w});
  CHECK(second.message == "");
  CHECK(ct::gradgradcheck([&](const Tensor& a, const Tensor& c) { return f(a, a, c); }, {x, w}));
  const auto of = [](const auto& g) {
    return [&g](const std::vector<Tensor>& in) { return g(in[0], in[1], in[2]); };
  };
  const std::vector<Tensor> inputs{x, b, w}, directions{b + x, ct::cos(b), w * w};
  const auto [y, dy] = ct::jvp(of(f), inputs, {x * 0.5, ct::cos(b), w * w});
  const auto [y2, dy2] = ct::jvp(of(formula), inputs, {x * 0.5, ct::cos(b), w * w});
  CHECK(same_bits(y, y2));
  CHECK(ct::testing::largest_difference(dy, dy2) < 1e-12);
  // Floor has a gradient of 0, a comparison none.
  const auto steps = ct::fuse([](auto a) { return floor(a) + where(a > 0, 1.0, 2.0); });
  Tensor a = leaf(x);
  steps(a).sum().backward();
  CHECK(same_bits(a.grad(), ct::zeros({4, 5}, {.dtype = ct::f64})));
}

TEST_CASE("fuse under Autocast gives the dtypes that the ops give", "[fuse]") {
  const auto formula = [](auto x, auto y) { return exp(x) + y; };
  const auto f = ct::fuse(formula);
  const Tensor x = ct::testing::waves({40}, 0.2).to(ct::bf16), y = ct::testing::waves({40}, 1.2).to(ct::bf16);
  CHECK(f(x, y).dtype() == ct::bf16);
  Tensor x1 = leaf(x), y1 = leaf(y);
  Tensor result;
  {
    const ct::Autocast guard(ct::bf16);
    result = f(x1, y1);
    CHECK(result.dtype() == ct::f32);
    CHECK(same_bits(result, formula(x, y)));
  }
  result.sum().backward();  // outside of the guard
  CHECK(x1.grad().dtype() == ct::bf16);
  CHECK(same_bits(x1.grad(), ct::exp(x.to(ct::f32)).to(ct::bf16)));
  CHECK(f(x, y.to(ct::f32)).dtype() == formula(x, y.to(ct::f32)).dtype());
  CHECK(f(x, ct::full({}, 2.0)).dtype() == formula(x, ct::full({}, 2.0)).dtype());
}

TEST_CASE("fuse gives the same bits for any number of threads", "[fuse]") {
  const auto f = ct::fuse([](auto x, auto b) { return tanh(x + b) * sigmoid(x) / (1 + square(b)); });
  const Tensor x = ct::testing::waves({301, 1003}, 0.3).to(ct::f32),
               b = ct::testing::waves({1003}, 1).to(ct::f32);
  const int before = ct::num_threads();
  std::vector<Tensor> seen;
  for (const int threads : {1, 2, 5}) {
    ct::set_num_threads(threads);
    Tensor x1 = leaf(x), b1 = leaf(b);
    const Tensor y = f(x1, b1);
    y.sum().backward();
    for (const Tensor& t : {y.detach(), x1.grad(), b1.grad()}) seen.push_back(t);
  }
  ct::set_num_threads(before);
  for (std::size_t i = 3; i < seen.size(); ++i) CHECK(same_bits(seen[i], seen[i - 3]));
}

TEST_CASE("Observers see a fused call as one op with its formula's number", "[fuse]") {
  struct Seen final : ct::Tracer {
    std::vector<std::string> calls;
    bool begin(const ct::KernelCall& call) override {
      calls.push_back(call.op.name);
      if (call.forward)
        calls.back() += ": " + ct::describe_attributes(call.op, call.forward->attrs_view).substr(0, 9);
      return false;
    }
    void end(const ct::KernelCall&) override {}
  };
  const auto f = ct::fuse([](auto x) { return sin(x) + cos(x); });
  Tensor x = leaf(ct::testing::waves({8}, 0));
  f(x);
  Seen seen;
  const ct::TracerScope scope(seen);
  const Tensor y = f(x), g = ct::ones({8}, {.dtype = ct::f64});
  seen.calls.clear();
  f(x).backward(g);
  CHECK(seen.calls == std::vector<std::string>{"fused: formula =", "fused"});
}

TEST_CASE("fuse refuses what it can't do, with the remedy", "[fuse]") {
  const auto add = ct::fuse([](auto x, auto y) { return x + y; });
  CHECK_THROWS_AS(add(ct::zeros({2, 3}), ct::zeros({4})), ct::ShapeError);
  CHECK_THROWS_WITH(add(ct::zeros({2}), ct::arange(2)),
                    Catch::Contains("[fused] tensor 1 is i64[2]") && Catch::Contains(".to(ct::f32)"));
  CHECK_THROWS_AS(add(ct::zeros({2}), ct::arange(2)), ct::DTypeError);
  CHECK_THROWS_WITH(add(ct::zeros({2}), Tensor()), Catch::Contains("tensor 1 is undefined"));
  const Tensor mask = ct::tensor({true, false});
  CHECK_THROWS_AS(add(mask, mask), ct::DTypeError);
  CHECK_THROWS_WITH(ct::fuse([](auto x, auto) { return x; })(mask, mask),
                    Catch::Contains("does not use its argument 1"));
  CHECK_THROWS_WITH(ct::fuse([](auto x) {
                      for (int i = 0; i < 65; ++i) x = x + 1;
                      return x;
                    })(ct::zeros({2})),
                    Catch::Contains("65 steps; at most 64") && Catch::Contains("cut it"));
  CHECK_THROWS_WITH(ct::fuse([](auto x, auto y) {
                      return std::array{x * 2, x + y};
                    })(ct::zeros({2}), ct::zeros({3, 2})),
                    Catch::Contains("results of one formula have one shape"));
  CHECK_THROWS_AS(ct::fuse([](auto x) { return x.to(ct::i64); })(ct::zeros({2})), ct::DTypeError);
  CHECK_THROWS_AS(ct::fuse([](auto x) { return leaky_relu(x, NAN); })(ct::zeros({2})), ct::ValueError);
  // A call after a refused one.
  CHECK(add(ct::ones({2}), ct::ones({2})).to_vector<float>() == std::vector<float>{2, 2});
  Tensor x = leaf(ct::ones({2}));
  const Tensor y = ct::fuse([](auto a) { return a * a; })(x);
  ct::NoGrad guard;
  x.add_(1.0);
  CHECK_THROWS_AS(y.sum().backward(), ct::AutogradError);
}

TEST_CASE("A formula is read once for each combination of dtypes", "[fuse]") {
  int reads = 0;
  const auto f = ct::fuse([&reads](auto x, auto y) {
    ++reads;
    return x * y;
  });
  for (int i = 0; i < 3; ++i) f(ct::zeros({2 + i}), ct::zeros({1}));
  CHECK(reads == 1);
  f(ct::zeros({2}), ct::zeros({}));
  CHECK(reads == 2);
  f(ct::zeros({2}, {.dtype = ct::f64}), ct::zeros({2}, {.dtype = ct::f64}));
  CHECK(reads == 3);
  CHECK(f(ct::full({2}, 3.0), ct::full({}, 2.0, {.dtype = ct::f64})).dtype() == ct::f32);
}
