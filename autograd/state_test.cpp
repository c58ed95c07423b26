#include <cotangent/cotangent.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

// Changes between forward and backward: the gradient is right, or there is an error.

using namespace ct;
using testing::check;

namespace {

// A result that lies on the tape, and something over its memory that does not.
struct Alias {
  const char* name;
  Tensor (*of)(const Tensor& a);
};
const Alias kAliases[] = {
    {"a view made under NoGrad",
     [](const Tensor& a) {
       const NoGrad guard;
       return a.slice(0, 0, 1);
     }},
    {"the whole, viewed under NoGrad",
     [](const Tensor& a) {
       const NoGrad guard;
       return a.view(a.shape());
     }},
    {"a detached tensor", [](const Tensor& a) { return a.detach(); }},
    {"a view of a detached tensor", [](const Tensor& a) { return a.detach().slice(0, 0, 1); }}};
struct Change {
  const char* name;
  void (*of)(Tensor& v);
};
const Change kChanges[] = {{"mul_", [](Tensor& v) { v.mul_(5); }},
                           {"fill_", [](Tensor& v) { v.fill_(5); }},
                           {"copy_", [](Tensor& v) { v.copy_(full({1}, 5, {.dtype = f64})); }},
                           {"zero_", [](Tensor& v) { v.zero_(); }},
                           {"assignment", [](Tensor& v) { v.slice(0, 0, 1) = 5; }},
                           {"index_fill_", [](Tensor& v) { v.masked_fill_(gt(v, -1), 5); }}};

}  // namespace

TEST_CASE("what was changed beside the tape is not used on it", "[autograd][state]") {
  for (const Alias& alias : kAliases)
    for (const Change& change : kChanges) {
      INFO(alias.name << ", " << change.name);
      const Tensor x = testing::values({2}, {1, 2}).set_requires_grad(), a = x * 2, before = a.sum();
      Tensor v = alias.of(a);
      change.of(v);
      CHECK_THROWS_AS(a.sum(), AutogradError);
      CHECK_THROWS_AS(a.backward(ones_like(a)), AutogradError);
      before.backward();  // of the values that there were
      check(x.grad(), {2, 2});
      a.detach().sum();
      const NoGrad guard;
      a.sum();
    }
  // Tensors without a tape, leaves, and those that are changed under NoGrad knowingly.
  Tensor x = testing::values({2}, {1, 2}).set_requires_grad();
  x.detach().mul_(3);
  (x * x).sum().backward();
  check(x.grad(), {6, 12});
  const Tensor a = x * 2;
  {
    const NoGrad guard;
    a.detach().add_(1);
  }
  a.sum().backward();
  check(x.grad(), {8, 14});
  Tensor plain = zeros({2});
  plain.slice(0, 0, 1).fill_(1);
  CHECK((plain * x.to(f32)).sum().requires_grad());
}

TEST_CASE("retain_grad() goes with the tensor through changes in place", "[autograd][state]") {
  const Tensor x = testing::values({2}, {1, 2}).set_requires_grad();
  Tensor y = x * 2;
  y.retain_grad();
  y.mul_(3);
  exp_(y);
  y.backward(ones_like(y.detach()));
  check(y.grad(), {1, 1});
  Tensor z = x * 2;
  z.mul_(3);
  z.retain_grad();
  z.add_(x);
  (z * 4).sum().backward();
  check(z.grad(), {4, 4});
}

TEST_CASE("a leaf that is frozen after forward gets no gradient", "[autograd][state]") {
  const auto take = [](const Tensor& t) { return t.grad().defined(); };
  Tensor w = ones({2, 2}).set_requires_grad(), b = ones({2}).set_requires_grad();
  const Tensor x = ones({3, 2});
  for (const bool started : {false, true}) {  // with a gradient that kernels add to, and without
    w.set_grad(started ? ones({2, 2}) : Tensor()), b.set_grad({});
    w.set_requires_grad();
    const Tensor loss = linear(x, w, b).sum();
    w.set_requires_grad(false);
    loss.backward();
    CHECK(take(w) == started);
    if (started) check(w.grad(), {1, 1, 1, 1});
    CHECK(take(b));
  }
  nn::Linear layer(2, 2);
  const Tensor loss = layer(x).sum();
  layer.requires_grad_(false);
  loss.backward();
  CHECK_FALSE(take(layer.get("weight")));
}

TEST_CASE("a leaf that is converted after forward gets its gradient in its new dtype", "[autograd][state]") {
  const auto weight = [](const nn::Linear& layer) { return layer.get("weight").grad(); };
  for (const DType from : {f32, f64, bf16})
    for (const DType to : {f32, f64, bf16}) {
      for (const bool started : {false, true})
        for (const bool create_graph : {false, true}) {
          INFO(from << " to " << to << ", gradient there " << started << ", create_graph " << create_graph);
          nn::Linear layer(4, 3);
          layer.to(from);
          const Tensor x = ones({2, 4}, {.dtype = from});
          if (started) layer(x).sum().backward();
          const Tensor loss = layer(x).sum() + (x * layer.get("weight")[0]).sum();
          layer.to(to);
          const Tensor all = loss.to(to) + layer(x.to(to)).sum();  // it is used before and after
          backward({all}, {}, {.create_graph = create_graph});
          CHECK(weight(layer).dtype() == to);
          std::vector<double> right(12, started ? 6 : 4);
          for (std::size_t i = 0; i < 4; ++i) right[i] += 2;
          check(weight(layer).detach(), right);
        }
    }
  // Past a conversion that Autocast has made.
  nn::Linear layer(4, 3);
  Tensor loss;
  {
    const Autocast low(bf16);
    loss = layer(ones({2, 4})).to(f32).sum();
  }
  layer.to(f64);
  loss.backward();
  check(weight(layer), std::vector<double>(12, 2));
}
