#include <cotangent/cotangent.h>
#include <cotangent/ops/testing/gradcheck.h>

#include <atomic>
#include <thread>

#include "tests/autograd_testing.h"
#include "tests/catch.h"

using Catch::Matchers::Contains;
using ct::Tensor;
using ct::testing::grad_of;
using ct::testing::leaf;
using ct::testing::message_of;
using ct::testing::Values;

TEST_CASE("leaves accumulate; non-leaves keep nothing unless asked", "[autograd]") {
  const Tensor x = leaf({1, 2, 3});
  const Tensor y = x * x;
  y.retain_grad();
  const Tensor z = y * 2.0;
  z.sum().backward();
  CHECK(grad_of(x) == Values{4, 8, 12});
  CHECK(grad_of(y) == Values{2, 2, 2});
  CHECK_FALSE(z.grad().defined());
  (x * 3.0).sum().backward();
  CHECK(grad_of(x) == Values{7, 11, 15});
  CHECK(y.grad_fn_name() == "mul");
  CHECK(x.is_leaf());
  CHECK_FALSE(y.is_leaf());
}

TEST_CASE("a tensor used many times gets the sum of its gradients", "[autograd]") {
  const Tensor x = leaf({2});
  const Tensor a = x * x;      // 4
  const Tensor b = a * x;      // 8
  const Tensor c = a + b + a;  // 2x^2 + x^3
  c.sum().backward();
  CHECK(grad_of(x) == Values{4 * 2 + 3 * 4});
}

TEST_CASE("the gradient handed to a leaf is its own, not shared with another leaf", "[autograd]") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  for (int pass = 1; pass <= 2; ++pass) {
    (a + b).sum().backward();
    CHECK(grad_of(a) == Values(2, pass));
    CHECK(grad_of(b) == Values(2, pass));
  }
}

TEST_CASE("recording follows the grad mode", "[autograd]") {
  const Tensor x = leaf({1});
  {
    ct::NoGrad guard;
    CHECK_FALSE((x * x).requires_grad());
    {
      ct::EnableGrad inner;
      CHECK((x * x).requires_grad());
    }
    CHECK_FALSE((x * x).requires_grad());
  }
  CHECK((x * x).requires_grad());
  CHECK_FALSE(x.detach().requires_grad());
  (x * x.detach()).sum().backward();
  CHECK(grad_of(x) == Values{1});
}

TEST_CASE("roots: several, with cotangents, and what is wrong with them", "[autograd]") {
  const Tensor x = leaf({1, 2});
  const Tensor a = x * 2.0, b = x * x;
  const Tensor roots[] = {a, b};
  const Tensor weights[] = {ct::from_vector<float>({1, 10}, {2}), ct::from_vector<float>({100, 1000}, {2})};
  ct::backward(roots, weights);
  CHECK(grad_of(x) == Values{2 + 200, 20 + 4000});

  CHECK_THAT(message_of<ct::AutogradError>([&] { (x * x).backward(); }),
             Contains("[backward] the root is f32[2]") && Contains("only a tensor with one element"));
  CHECK_THAT(message_of<ct::AutogradError>([&] { x.detach().sum().backward(); }),
             Contains("does not require a gradient"));
  CHECK_THAT(message_of<ct::ShapeError>([&] { (x * x).backward(ct::ones({3})); }),
             Contains("f32[3]") && Contains("f32[2]"));
  CHECK_THAT(message_of<ct::DTypeError>([&] { (x * x).backward(ct::ones({2}, {.dtype = ct::f64})); }),
             Contains("f64[2]"));
  CHECK_THAT(message_of<ct::AutogradError>([&] { ct::backward(roots, std::span(weights, 1)); }),
             Contains("2 roots and 1"));
}

TEST_CASE("a second backward needs retain_graph", "[autograd]") {
  const Tensor x = leaf({3});
  const Tensor y = (x * x).sum();
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  CHECK(grad_of(x) == Values{12});
  CHECK_THAT(message_of<ct::AutogradError>([&] { y.backward(); }),
             Contains("'mul'") && Contains("second time") && Contains("retain_graph"));
  (x * x).sum().backward();  // the next correct call works
  CHECK(grad_of(x) == Values{18});
}

TEST_CASE("in-place changes of saved tensors are caught", "[autograd]") {
  const Tensor x = leaf({1, 2});
  Tensor w = ct::from_vector<float>({5, 6}, {2});
  const Tensor y = (x * w).sum();
  w.add_(1.0);
  CHECK_THAT(message_of<ct::AutogradError>([&] { y.backward(); }),
             Contains("input 'b' of 'mul'") && Contains("version 0") && Contains("version 1") &&
                 Contains("clone()"));
  CHECK_FALSE(x.grad().defined());
  // An op that needs no saved values does not mind.
  const Tensor z = (x + w).sum();
  w.add_(1.0);
  z.backward();
  CHECK(grad_of(x) == Values{1, 1});
}

TEST_CASE("in-place ops are recorded", "[autograd]") {
  Tensor x = leaf({1, 2});
  CHECK_THAT(message_of<ct::AutogradError>([&] { x.mul_(2.0); }), Contains("leaf") && Contains("NoGrad"));
  {
    ct::NoGrad guard;
    x.mul_(2.0);
  }
  CHECK(x.to_vector<double>() == Values{2, 4});

  Tensor h = x * 3.0;
  const Tensor other = leaf({10, 20});
  h.mul_(other);  // saves h's old value for other's gradient
  h.add_(1.0);
  h.sum().backward();
  CHECK(grad_of(x) == Values{30, 60});
  CHECK(grad_of(other) == Values{6, 12});

  // Into a tensor without history: it gets one.
  Tensor sum = ct::zeros({2});
  sum.add_(x * x);
  sum.add_(x);
  sum.sum().backward();
  CHECK(grad_of(x) == Values{30 + 5, 60 + 9});
}

TEST_CASE("views and in-place changes never disagree silently", "[autograd]") {
  const Tensor x = leaf({1, 2, 3, 4});
  Tensor h = x * 1.0;
  const Tensor before = h.view({2, 2});
  Tensor row = before[0];
  CHECK_THAT(message_of<ct::AutogradError>([&] { row.mul_(2.0); }), Contains("in-place change of a view"));
  h.mul_(2.0);
  CHECK_THAT(message_of<ct::AutogradError>([&] { (before * 3.0).sum(); }), Contains("out of date"));
  (h.view({2, 2}) * 3.0).sum().backward();
  CHECK(grad_of(x) == Values(4, 6));
}

TEST_CASE("gradients are added to one that was set to an expanded tensor", "[autograd]") {
  Tensor x = leaf({1, 2});
  x.set_grad(ct::full({}, 5.f).expand({2}));
  (x * 2.0).sum().backward();
  CHECK(grad_of(x) == Values{7, 7});
  (x * 2.0).sum().backward();
  CHECK(grad_of(x) == Values{9, 9});
}

TEST_CASE("grad() returns gradients and leaves .grad alone", "[autograd]") {
  const Tensor x = leaf({2, 3}), w = leaf({5, 7}), unused = leaf({1});
  const Tensor h = x * w;
  const Tensor y = (h * h).sum();
  const Tensor outputs[] = {y}, inputs[] = {x, h};
  const std::vector<Tensor> g = ct::grad(outputs, inputs, {}, {.retain_graph = true});
  CHECK(g[0].to_vector<double>() == Values{2 * 10 * 5, 2 * 21 * 7});
  CHECK(g[1].to_vector<double>() == Values{20, 42});
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(w.grad().defined());
  const Tensor with_unused[] = {w, unused};
  CHECK_THAT(
      message_of<ct::AutogradError>([&] { ct::grad(outputs, with_unused, {}, {.retain_graph = true}); }),
      Contains("do not depend on input 1"));
  CHECK_FALSE(ct::grad(outputs, with_unused, {}, {.allow_unused = true})[1].defined());
}

TEST_CASE("a tape of 100,000 nodes is walked and destroyed without recursion", "[autograd]") {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + x;
  y.sum().backward();
  CHECK(grad_of(x) == Values{100001});
  Tensor forgotten = x;
  for (int i = 0; i < 100000; ++i) forgotten = forgotten * 1.0;
}

TEST_CASE("what is saved is freed with the outputs, or as backward passes", "[autograd]") {
  const auto in_use = [] { return ct::memory_stats(ct::cpu).in_use; };
  const Tensor x = ct::ones({1 << 18}).set_requires_grad();
  const auto base = in_use();
  { const Tensor y = ct::exp(ct::exp(x)) * x; }
  CHECK(in_use() == base);  // a forward without backward leaves nothing
  const Tensor loss = (ct::exp(ct::exp(x))).sum();
  CHECK(in_use() > base);
  loss.backward();
  x.impl()->autograd.reset();
  CHECK(in_use() < base + (1 << 18) * 4);  // only the scalar is left, though the tape still hangs on loss
}

TEST_CASE("threads go back through their own tapes at the same time", "[autograd]") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &wrong] {
      Tensor x = leaf({static_cast<float>(t + 1)});
      for (int i = 0; i < 200; ++i) {
        x.set_grad({});
        Tensor y = x;
        for (int j = 0; j < 20; ++j) y = y * x;
        y.sum().backward();
        double want = 21;
        for (int j = 0; j < 20; ++j) want *= t + 1;
        if (std::abs(grad_of(x)[0] - want) > 1e-5 * want) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("anomaly mode names the op", "[autograd]") {
  const Tensor x = leaf({0, 1});
  {
    ct::AnomalyGuard guard;
    CHECK_THAT(message_of<ct::AutogradError>([&] { ct::log(x); }), Contains("forward of 'log'"));
    // sqrt'(0) is infinite: only backward sees it.
    CHECK_THAT(message_of<ct::AutogradError>([&] { ct::sqrt(x).sum().backward(); }),
               Contains("backward of 'sqrt'") && Contains("called from"));
  }
  ct::log(x);  // off again
}

TEST_CASE("leaves: what can and can't require a gradient", "[autograd]") {
  CHECK_THAT(message_of<ct::DTypeError>([] { ct::zeros({2}, {.dtype = ct::i64}).set_requires_grad(); }),
             Contains("i64[2]"));
  Tensor y = leaf({1}) * 2.0;
  CHECK_THAT(message_of<ct::AutogradError>([&] { y.set_requires_grad(false); }),
             Contains("'mul_scalar'") && Contains("detach()"));
  Tensor x = leaf({1, 2});
  CHECK_THAT(message_of<ct::ShapeError>([&] { x.set_grad(ct::ones({3})); }), Contains("f32[3]"));
  x.set_grad(ct::ones({2}));
  CHECK(grad_of(x) == Values{1, 1});
  x.set_grad({});
  CHECK_FALSE(x.grad().defined());
}

namespace {

struct Cube : ct::Function<Cube> {
  static std::vector<Tensor> forward(ct::FunctionContext& ctx, const std::vector<Tensor>& in) {
    ctx.save_for_backward({in[0]});
    return {in[0] * in[0] * in[0]};
  }
  static std::vector<Tensor> backward(ct::FunctionContext& ctx, const std::vector<Tensor>& grads) {
    const Tensor x = ctx.saved()[0];
    return {x * x * grads[0] * 3.0};
  }
};

struct WrongShape : ct::Function<WrongShape> {
  static std::vector<Tensor> forward(ct::FunctionContext&, const std::vector<Tensor>& in) {
    return {in[0] * 1.0};
  }
  static std::vector<Tensor> backward(ct::FunctionContext&, const std::vector<Tensor>&) {
    return {ct::ones({7})};
  }
};

}  // namespace

TEST_CASE("custom functions", "[autograd]") {
  const Tensor x = leaf({2, -3});
  const Tensor y = Cube::apply({x})[0];
  CHECK(y.to_vector<double>() == Values{8, -27});
  CHECK_THAT(std::string(y.grad_fn_name()), Contains("Cube"));
  y.sum().backward();
  CHECK(grad_of(x) == Values{12, 27});
  CHECK_THAT(message_of<ct::AutogradError>([&] { y.sum().backward(); }), Contains("second time"));
  CHECK_THAT(message_of<ct::ShapeError>([&] { WrongShape::apply({x})[0].sum().backward(); }),
             Contains("WrongShape") && Contains("f32[7]"));
  const ct::GradcheckResult r =
      ct::gradcheck([](const Tensor& t) { return Cube::apply({t})[0]; }, {x.detach().to(ct::f64)});
  CHECK(r.ok);
}
