#include <cotangent/cotangent.h>

#include <atomic>
#include <thread>

#include "tests/catch.h"

using Catch::Matchers::Contains;
using ct::Tensor;
using Values = std::vector<double>;

namespace {

Tensor leaf(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return ct::from_vector(values, {n}).set_requires_grad();
}

Values grad_of(const Tensor& t) { return t.grad().to_vector<double>(); }

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) { return e.what(); } catch (const std::exception& e) {
    return std::string("another type: ") + e.what();
  }
  return "nothing was thrown";
}

}  // namespace

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

TEST_CASE("hooks see, replace and follow gradients", "[autograd]") {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2.0;
  Values seen;
  const auto id = y.register_hook([&](const Tensor& g) {
    seen = g.to_vector<double>();
    return g * 10.0;
  });
  int accumulated = 0;
  x.register_post_accumulate_hook([&](const Tensor& t) { accumulated += t.grad().defined(); });
  const auto leaf_id = x.register_hook([](const Tensor& g) { return g + 1.0; });
  (y + y).sum().backward();
  CHECK(seen == Values{2, 2});  // called once, with the sum
  CHECK(grad_of(x) == Values{41, 41});
  CHECK(accumulated == 1);
  y.remove_hook(id);
  x.remove_hook(leaf_id);
  (x * 1.0).sum().backward();
  CHECK(grad_of(x) == Values{42, 42});
  CHECK_THAT(
      message_of<ct::AutogradError>([&] { ct::ones({1}).register_hook([](const Tensor& g) { return g; }); }),
      Contains("does not require a gradient"));
  CHECK_THROWS_AS(x.register_hook({}), ct::ValueError);
  CHECK_THROWS_AS(x.register_post_accumulate_hook({}), ct::ValueError);
}

TEST_CASE("retain_grad() accumulates, and shares its sum with nobody", "[autograd]") {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2.0;
  y.retain_grad();
  const Tensor cotangent = ct::from_vector<float>({10, 20}, {2});
  y.backward(cotangent, /*retain_graph=*/true);
  CHECK(grad_of(y) == Values{10, 20});
  (y * 3.0).sum().backward({}, true);
  CHECK(grad_of(y) == Values{13, 23});
  CHECK(cotangent.to_vector<double>() == Values{10, 20});
  y.grad().zero_();
  CHECK(cotangent.to_vector<double>() == Values{10, 20});
  Tensor(y).set_grad({});
  y.backward(cotangent, true);
  y.backward(cotangent);
  CHECK(grad_of(y) == Values{20, 40});

  // Two of them that get one gradient.
  const Tensor a = x * 1.0, b = x * 1.0;
  a.retain_grad();
  b.retain_grad();
  (a + b).sum().backward();
  a.grad().add_(5.0);
  CHECK(grad_of(a) == Values{6, 6});
  CHECK(grad_of(b) == Values{1, 1});
}

TEST_CASE("what a hook does to its argument stays in its branch", "[autograd]") {
  const auto ruin = [](const Tensor& g) {
    Tensor(g).mul_(100.0);
    return Tensor();
  };
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor x = a * 1.0, y = b * 1.0;
  x.register_hook(ruin);
  const Tensor cotangent = ct::from_vector<float>({1, 2}, {2});
  (x + y).backward(cotangent);
  CHECK(cotangent.to_vector<double>() == Values{1, 2});
  CHECK(grad_of(b) == Values{1, 2});
  CHECK(grad_of(a) == Values{100, 200});

  const Tensor c = leaf({1, 2}), d = leaf({3, 4});
  c.register_hook(ruin);
  (c + d).backward(cotangent);
  CHECK(cotangent.to_vector<double>() == Values{1, 2});
  CHECK(grad_of(d) == Values{1, 2});
  CHECK(grad_of(c) == Values{100, 200});

  // What one hook returned, and the next one changes, and an expanded gradient.
  const Tensor e = leaf({1, 2}), kept = ct::ones({2});
  e.register_hook([&](const Tensor&) { return kept; });
  e.register_hook(ruin);
  e.sum().backward();
  CHECK(kept.to_vector<double>() == Values{1, 1});
  CHECK(grad_of(e) == Values{100, 100});

  // What grad() has handed out.
  const Tensor f = leaf({1, 2});
  const Tensor h = f * 1.0;
  f.register_hook(ruin);
  const auto g = ct::grad(std::vector{h.sum()}, std::vector{h, f});
  CHECK(g[0].to_vector<double>() == Values{1, 1});
  CHECK(g[1].to_vector<double>() == Values{100, 100});
}

TEST_CASE("what a hook returns must be like the gradient", "[autograd]") {
  const auto run = [](const Tensor& result, bool of_leaf) {
    const Tensor x = leaf({1, 2, 3});
    const Tensor y = x * 2.0;
    (of_leaf ? x : y).register_hook([&](const Tensor&) { return result; });
    y.sum().backward();
    return grad_of(x);
  };
  for (const bool of_leaf : {false, true}) {
    CHECK_THROWS_AS(run(ct::ones({1}), of_leaf), ct::ShapeError);
    CHECK_THROWS_AS(run(ct::ones({3, 1}), of_leaf), ct::ShapeError);
    CHECK_THROWS_AS(run(ct::ones({3}, {.dtype = ct::f64}), of_leaf), ct::DTypeError);
    CHECK_THROWS_AS(run(ct::ones({3}, {.dtype = ct::i64}), of_leaf), ct::DTypeError);
    CHECK(run(ct::full({}, 4.f).expand({3}), of_leaf) == (of_leaf ? Values{4, 4, 4} : Values{8, 8, 8}));
  }
  CHECK_THAT(message_of<ct::ShapeError>([&] { run(ct::ones({4}), true); }),
             Contains("[register_hook] a hook returned f32[4] in place of the gradient f32[3]"));
}

TEST_CASE("a hook may remove itself and others, and add some", "[autograd]") {
  const Tensor x = leaf({1, 2});
  // What the first hook holds is used after it is gone from the list.
  const auto held = std::make_shared<Values>(100, 2.0);
  std::uint64_t once = 0, later = 0;
  int calls = 0, added = 0, after = 0;
  once = x.register_hook([&, held](const Tensor& g) {
    x.remove_hook(once);
    ++calls;
    for (int i = 0; i < 20; ++i)
      x.register_hook([&](const Tensor&) {
        ++added;
        return Tensor{};
      });
    return g * held->back();
  });
  later = x.register_hook([&](const Tensor&) {
    ++after;
    return Tensor{};
  });
  std::uint64_t post = 0;
  int posts = 0;
  post = x.register_post_accumulate_hook([&, held](const Tensor&) {
    x.remove_hook(post);
    posts += static_cast<int>(held->size());
  });
  x.register_post_accumulate_hook([&](const Tensor&) { ++posts; });
  (x * 3.0).sum().backward();
  CHECK(grad_of(x) == Values{6, 6});
  CHECK(calls == 1);
  CHECK(added == 0);  // from the next time on
  CHECK(after == 1);
  CHECK(posts == 101);
  x.remove_hook(later);
  (x * 3.0).sum().backward();
  CHECK(grad_of(x) == Values{9, 9});
  CHECK(calls == 1);
  CHECK(added == 20);
  CHECK(after == 1);
  CHECK(posts == 102);
}

TEST_CASE("what a hook returns is a gradient, whatever it was", "[autograd]") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  x.register_hook([&](const Tensor&) { return w; });
  (x * 2.0).sum().backward();
  CHECK(grad_of(x) == Values{3, 4});
  CHECK_FALSE(x.grad().requires_grad());
  CHECK_FALSE(ct::grad(std::vector{(x * 2.0).sum()}, std::vector{x})[0].requires_grad());
  const Tensor y = x * 2.0;
  y.retain_grad();
  y.register_hook([&](const Tensor&) { return w; });
  y.sum().backward();
  CHECK_FALSE(y.grad().requires_grad());
}

TEST_CASE("a hook may register one on another output of its node", "[autograd]") {
  const Tensor x = leaf({1, 2, 3, 4});  // so few parts are one op
  const std::vector<Tensor> parts = x.unbind(0);
  int calls = 0;
  parts[0].register_hook([&](const Tensor&) {
    for (const Tensor& part : parts)
      part.register_hook([&](const Tensor& g) {
        ++calls;
        return g * 10.0;
      });
    return Tensor{};
  });
  Tensor sum = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
  sum.backward();
  CHECK(calls == 3);  // what was registered on an output in its turn counts from the next time on
  CHECK(grad_of(x) == Values{1, 10, 10, 10});
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

TEST_CASE("gradcheck finds a wrong derivative", "[autograd]") {
  struct Wrong : ct::Function<Wrong> {
    static std::vector<Tensor> forward(ct::FunctionContext& ctx, const std::vector<Tensor>& in) {
      ctx.save_for_backward({in[0]});
      return {in[0] * in[0]};
    }
    static std::vector<Tensor> backward(ct::FunctionContext& ctx, const std::vector<Tensor>& grads) {
      return {ctx.saved()[0] * grads[0] * 2.001};
    }
  };
  const Tensor x = ct::from_vector<double>({1, 2, 3}, {3});
  const ct::GradcheckResult r = ct::gradcheck([](const Tensor& t) { return Wrong::apply({t})[0]; }, {x});
  CHECK_FALSE(r.ok);
  CHECK_THAT(r.message, Contains("gradient of input 0"));
  CHECK_THROWS_AS(ct::gradcheck([](const Tensor& t) { return t * 1.0; }, {x.to(ct::f32)}), ct::DTypeError);
}
