#include <cotangent/cotangent.h>

#include "tests/catch.h"
#include "tests/op_testing.h"

// What changes between forward and backward: the gradient is right, or there is an error.

using namespace ct;
using testing::check;

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

TEST_CASE("a leaf that is converted after forward is an error at backward", "[autograd][state]") {
  for (const DType from : {f32, f64, bf16})
    for (const DType to : {f32, f64, bf16}) {
      if (from == to) continue;
      for (const bool started : {false, true})
        for (const bool create_graph : {false, true}) {
          INFO(from << " to " << to << ", gradient there " << started << ", create_graph " << create_graph);
          nn::Linear layer(4, 3);
          layer.to(from);
          const Tensor x = ones({2, 4}, {.dtype = from});
          if (started) layer(x).sum().backward();
          const Tensor loss = layer(x).sum();
          layer.to(to);
          CHECK_THROWS_AS(backward({loss}, {}, {.create_graph = create_graph}), AutogradError);
          CHECK(layer.get("weight").grad().defined() == started);
          layer(x.to(to)).sum().backward();
          CHECK(layer.get("weight").grad().dtype() == to);
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
  CHECK_THROWS_AS(loss.backward(), AutogradError);
}
