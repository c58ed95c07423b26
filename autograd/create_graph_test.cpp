#include <cmath>
#include <vector>

#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include "tests/catch.h"

// Gradients of gradients: the calls that create_graph records, and those that it refuses.

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

TEST_CASE("derivatives along a direction are there where a formula has its own value",
          "[autograd][second_order]") {
  const auto along = [](const TensorsFunction& f, const std::vector<double>& at,
                        const std::vector<double>& v) {
    std::vector<Tensor> x, d;
    for (const double value : at) x.push_back(scalar(value, {.dtype = f64}));
    for (const double value : v) d.push_back(scalar(value, {.dtype = f64}));
    return jvp(f, x, d).derivative.item();
  };
  using List = const std::vector<Tensor>&;
  CHECK(along([](List x) { return pow(x[0], x[1]); }, {0, 2}, {1, 0}) == 0);
  CHECK(along([](List x) { return pow(x[0], x[1]); }, {3, 0}, {0, 1}) == Approx(std::log(3.0)));
  CHECK(along([](List x) { return pow(0.0, x[0]); }, {1}, {1}) == 0);
  CHECK(along([](List x) { return hypot(x[0], x[1]); }, {0, 0}, {1, 0}) == 0);
  CHECK(along([](List x) { return atan2(x[0], x[1]); }, {0, 0}, {1, 0}) == 0);
  const Tensor x = tensor({{0., 0.}, {3., 4.}}, {.dtype = f64}), v = ones({2, 2}, {.dtype = f64});
  const auto rows = [&](const auto& f) {
    return jvp([&](const Tensor& t) { return f(t); }, x, v).derivative.template to_vector<double>();
  };
  for (const double p : {1.0, 2.0, 3.0}) CHECK(rows([p](auto& t) { return norm(t, p, {1}); })[0] == 0);
  CHECK(rows([](auto& t) { return norm(t, 2, {1}); })[1] == Approx(1.4));
  CHECK(rows([](auto& t) { return stddev(t, {1}); })[0] == 0);
  CHECK(rows([](auto& t) { return cdist(t, t); }) == std::vector<double>(4, 0.0));
}

TEST_CASE("a mixed second derivative is the same from both sides", "[autograd][second_order]") {
  const auto mixed = [](const TensorsFunction& f, double a, double b, double want) {
    const auto h = hessian(f, {scalar(a, {.dtype = f64}), scalar(b, {.dtype = f64})});
    CHECK(h[0][1].item() == Approx(want));
    CHECK(h[1][0].item() == Approx(want));
  };
  using List = const std::vector<Tensor>&;
  mixed([](List x) { return xlogy(x[0], x[1]); }, 0, 2, 0.5);
  mixed([](List x) { return pow(x[0], x[1]); }, 4, 0, 0.25);
  mixed([](List x) { return pow(x[0], x[1]); }, 0, 3, 0);
}

TEST_CASE("a recorded gradient penalty of SELU stays finite on large inputs", "[autograd][second_order]") {
  const Tensor x = leaf({100, 255, 1, 89}).detach().to(f32);
  for (const auto f :
       {+[](const Tensor& t) { return sum(selu(t)); }, +[](const Tensor& t) { return sum(elu(t)); }}) {
    const Tensor h = hessian([&](const Tensor& t) { return f(t); }, x);
    CHECK(max(abs(h)).item() == 0);
  }
}

TEST_CASE("the recorded gradient of a product takes memory of its length", "[autograd][second_order]") {
  const std::int64_t n = 20000;  // n^2 numbers would be 3.2 GB
  const Tensor x = (rand({n}, {.dtype = f64}) * 1e-3 + 1).requires_grad_();
  const Tensor zero = where(eq(arange(n), 7), 0, x.detach()).requires_grad_();
  reset_peak_stats(cpu);
  const std::size_t before = memory_stats(cpu).in_use;
  for (const Tensor& t : {x, zero}) {
    const Tensor g = grad({prod(t)}, {t}, {}, {.create_graph = true})[0];
    const Tensor plain = grad({prod(t)}, {t})[0];
    CHECK(max(abs(g - plain)).item() <= 1e-9 * max(abs(plain)).item());
    CHECK(isfinite(grad({g.sum()}, {t})[0]).all().item<bool>());
  }
  const Tensor huge = from_vector(std::vector<double>{1e200, 1e200, 0, 1e-300, 1e-250}, {5}).requires_grad_();
  const Tensor g = grad({prod(huge)}, {huge}, {}, {.create_graph = true})[0];
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(g[i].item() == Approx(i == 2 ? 1e-150 : 0).margin(0).epsilon(1e-9));
  CHECK(memory_stats(cpu).peak_in_use - before < 100 * 8 * static_cast<std::size_t>(n));
}

TEST_CASE("recording changes no first gradient in 16 bits", "[autograd][second_order]") {
  const auto check = [](const Tensor& y, const Tensor& x, double tolerance) {
    const Tensor plain = grad({y}, {x}, {}, {.retain_graph = true})[0],
                 recorded = grad({y}, {x}, {}, {.create_graph = true})[0];
    CHECK(recorded.dtype() == x.dtype());
    CHECK(max(abs(recorded.to(f64) - plain.to(f64))).item() <= tolerance);
  };
  Tensor w = ones({3}, {.dtype = f16, .requires_grad = true});
  const Tensor x = tensor({{1000.f, -1000.f, 500.f}}).to(f16);
  check((layer_norm(x, w) * tensor({1.f, 2.f, 3.f}).to(f16)).sum(), w, 0.002);
  Tensor p = tensor({0.f, 1.f}).to(f16).requires_grad_();
  check(binary_cross_entropy(p, tensor({0.f, 1.f}).to(f16)), p, 0);
  Tensor l = tensor({82.5f, 80.f}).to(bf16).requires_grad_();
  check(logsumexp(l), l, 0.004);
  Tensor b = tensor({0.001f}).requires_grad_();
  check(fmod(tensor({10.f}), b).sum(), b, 0);
}
