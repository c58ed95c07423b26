#include <cmath>
#include <vector>

#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include "tests/catch.h"

// Gradients of gradients: what create_graph records, and what it refuses.

using namespace ct;
using Catch::Matchers::Contains;

namespace {

Tensor leaf(std::vector<double> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  Tensor t = from_vector(values, {n});
  t.set_requires_grad();
  return t;
}

std::vector<Tensor> again(const Tensor& of, const std::vector<Tensor>& inputs) {
  return grad({of}, inputs, {}, {.create_graph = true});
}

// x^3 with a backward of its own, which keeps its input, or its output alone.
struct Cube : Function<Cube> {
  static std::vector<Tensor> forward(FunctionContext& ctx, const std::vector<Tensor>& in) {
    ctx.save_for_backward(in);
    return {in[0] * in[0] * in[0]};
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& g) {
    const Tensor x = ctx.saved()[0];
    return {g[0] * 3 * x * x};
  }
};
struct Exponential : Function<Exponential> {
  static std::vector<Tensor> forward(FunctionContext& ctx, const std::vector<Tensor>& in) {
    const Tensor y = exp(in[0]);
    ctx.save_for_backward({y});
    return {y};
  }
  static std::vector<Tensor> backward(FunctionContext& ctx, const std::vector<Tensor>& g) {
    return {g[0] * ctx.saved()[0]};
  }
};

}  // namespace

TEST_CASE("create_graph gives derivatives of any order", "[autograd][second_order]") {
  const Tensor x = leaf({2, -1, 0.5});
  Tensor of = sum(pow(x, 4));
  const double powers[] = {4, 12, 24, 24};  // 4 x^3, 12 x^2, 24 x, 24
  for (int order = 1; order <= 4; ++order) {
    const Tensor g = again(of, {x})[0];
    for (std::int64_t i = 0; i < 3; ++i) {
      const double v = x[i].item(), want = powers[order - 1] * std::pow(v, 4 - order);
      CHECK(g[i].item() == Approx(want).margin(1e-12));
    }
    of = sum(g);
  }
}

TEST_CASE("create_graph reads the result of an op in place", "[autograd][second_order]") {
  Tensor x = ct::tensor({0.5, -1.0}, {.dtype = ct::f64});
  x.set_requires_grad();
  Tensor y = x.clone();
  ct::exp_(y);  // its gradient is made of y, which stands on the tape as its result
  const Tensor first = grad({ct::sum(y)}, {x}, {}, {.create_graph = true})[0];
  const Tensor second = grad({ct::sum(first)}, {x})[0];
  for (const Tensor& g : {first, second})
    for (int i = 0; i < 2; ++i) CHECK(g[i].item() == Approx(std::exp(x[i].item())));
}

TEST_CASE("without create_graph gradients are constants", "[autograd][second_order]") {
  const Tensor x = leaf({2});
  const Tensor y = sum(x * x);
  CHECK_FALSE(grad({y}, {x}, {}, {.retain_graph = true})[0].requires_grad());
  const Tensor g = again(y, {x})[0];
  CHECK(g.requires_grad());
  CHECK(g.grad_fn_name() != "");
}

TEST_CASE("backward with create_graph leaves gradients that can be differentiated",
          "[autograd][second_order]") {
  Tensor x = leaf({3}), w = leaf({5});
  const Tensor y = sum(x * x * w);
  ct::backward({y}, {}, {.create_graph = true});
  CHECK(x.grad().item() == 30);  // 2 x w
  CHECK(w.grad().item() == 9);   // x^2
  const Tensor penalty = sum(square(x.grad()));
  const std::vector<Tensor> second = grad({penalty}, std::vector<Tensor>{x, w});
  CHECK(second[0].item() == 2 * 30 * 10);  // 2 (2 x w) 2 w
  CHECK(second[1].item() == 2 * 30 * 6);   // 2 (2 x w) 2 x
  // The next plain backward adds to them, and what was recorded stays as it was.
  const Tensor recorded = x.grad();
  sum(x * w).backward();
  CHECK(x.grad().item() == 35);
  CHECK(recorded.item() == 30);
  x.set_grad({});
  w.set_grad({});
}

TEST_CASE("create_graph goes through hooks, recompute, custom functions and several roots",
          "[autograd][second_order]") {
  const Tensor x = leaf({1.5});
  SECTION("hooks take part in what is recorded") {
    const Tensor y = x * x;
    y.register_hook([](const Tensor& g) { return g * g; });
    const Tensor z = sum(y * 3);
    const Tensor g = again(z, {x})[0];  // 9 * 2 x
    CHECK(g.item() == 27);
    CHECK(again(g, {x})[0].item() == 18);
  }
  SECTION("recompute") {
    const Tensor y = recompute([](const Tensor& t) { return t * t * t; }, x);
    const Tensor g = again(sum(y), {x})[0];
    CHECK(g.item() == Approx(3 * 1.5 * 1.5));
    CHECK(again(g, {x})[0].item() == Approx(6 * 1.5));
  }
  SECTION("functions that keep their input, or their output") {
    const Tensor g = again(sum(Cube::apply({x})[0]), {x})[0];
    CHECK(again(g, {x})[0].item() == Approx(6 * 1.5));
    const Tensor e = again(sum(Exponential::apply({x})[0]), {x})[0];
    CHECK(again(e, {x})[0].item() == Approx(std::exp(1.5)));
    CHECK(gradgradcheck([](const Tensor& t) { return Exponential::apply({t})[0]; }, {x}).ok);
  }
  SECTION("roots and cotangents that have a history") {
    const Tensor c = leaf({2});
    const Tensor y = x * x;
    const Tensor g = grad({y}, {x}, {c}, {.create_graph = true})[0];  // 2 x c
    CHECK(again(g, {c})[0].item() == 3);
  }
}

TEST_CASE("an op without a rule refuses by name, and says why", "[autograd][second_order]") {
  const Tensor x = randn({3, 4}).set_requires_grad(), w = randn({5, 4}).set_requires_grad();
  const Tensor t = from_vector<std::int64_t>({0, 2, 4}, {3});
  const Tensor loss = linear_cross_entropy(x, w, t);
  CHECK_THROWS_WITH(again(loss, {x}),
                    Contains("'linear_cross_entropy' has no derivatives beyond the first") &&
                        Contains("{.recompute = true}"));
  // The tape is as it was.
  loss.backward();
  CHECK(x.grad().defined());
}

TEST_CASE("gradients of gradients under Autocast have the dtypes of the forward pass",
          "[autograd][second_order]") {
  const Tensor x = randn({4, 8}).set_requires_grad(), w = randn({3, 8}).set_requires_grad();
  const Autocast guard(bf16);
  const Tensor y = sum(tanh(linear(x, w)).to(f32));
  const Tensor g = again(y, {x})[0];
  CHECK(g.dtype() == f32);
  CHECK(again(sum(square(g)), {w})[0].dtype() == f32);
}

TEST_CASE("create_graph leaves no memory behind", "[autograd][second_order]") {
  const auto bytes = [] { return memory_stats(cpu).in_use; };
  const Tensor x = randn({64, 64}).set_requires_grad();
  const auto once = [&] {
    const Tensor g = again(sum(pow(x, 3)), {x})[0];
    return again(sum(square(g)), {x})[0].detach();
  };
  once();
  const auto before = bytes();
  for (int i = 0; i < 5; ++i) once();
  CHECK(bytes() == before);
}
