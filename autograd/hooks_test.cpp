#include <cotangent/cotangent.h>

#include <memory>

#include "tests/autograd_testing.h"
#include "tests/catch.h"

using Catch::Matchers::Contains;
using ct::Tensor;
using ct::testing::grad_of;
using ct::testing::leaf;
using ct::testing::message_of;
using ct::testing::Values;

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

  // A gradient that one hook returned and the next changes, and an expanded gradient.
  const Tensor e = leaf({1, 2}), kept = ct::ones({2});
  e.register_hook([&](const Tensor&) { return kept; });
  e.register_hook(ruin);
  e.sum().backward();
  CHECK(kept.to_vector<double>() == Values{1, 1});
  CHECK(grad_of(e) == Values{100, 100});

  // A gradient that grad() has handed out.
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
  // State of the first hook is used after it is gone from the list.
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
  CHECK(calls == 3);  // a hook that is registered on an output in its turn runs from the next time on
  CHECK(grad_of(x) == Values{1, 10, 10, 10});
}
