#include <cotangent/cotangent.h>

#include <algorithm>

#include "tests/catch.h"

// ct::grad() walks the nodes between its outputs and its inputs, and no other.

using Catch::Matchers::Contains;
using ct::Tensor;
using Values = std::vector<double>;

namespace {

Tensor leaf(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return ct::from_vector(values, {n}).set_requires_grad();
}

Values values_of(const Tensor& t) { return t.to_vector<double>(); }

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         ct::GradOptions options = {}) {
  return ct::grad(outputs, inputs, {}, options);
}

// Counts the gradients that reach `t`.
void count(const Tensor& t, int& calls) {
  t.register_hook([&calls](const Tensor&) {
    ++calls;
    return Tensor();
  });
}

int g_squares = 0;

struct Square : ct::Function<Square> {
  static std::vector<Tensor> forward(ct::FunctionContext& context, const std::vector<Tensor>& in) {
    context.save_for_backward(in);
    return {in[0] * in[0]};
  }
  static std::vector<Tensor> backward(ct::FunctionContext& context, const std::vector<Tensor>& grads) {
    ++g_squares;
    return {context.saved()[0] * grads[0] * 2.0};
  }
};

}  // namespace

TEST_CASE("grad() leaves branches alone that lead to no input", "[autograd][grad]") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor m = a * 3.0;
  Tensor weight = ct::ones({2});
  const Tensor side = Square::apply({ct::exp(b * 2.0) * weight})[0];
  const Tensor z = (m + side).sum();
  int on_side = 0, on_b = 0;
  count(side, on_side);
  count(b, on_b);
  g_squares = 0;
  weight.add_(1.0);  // the tensors that the side saved are gone
  CHECK(values_of(grad({z}, {m}, {.retain_graph = true})[0]) == Values{1, 1});
  CHECK(values_of(grad({z}, {a})[0]) == Values{3, 3});
  CHECK(on_side == 0);
  CHECK(on_b == 0);
  CHECK(g_squares == 0);

  const Tensor h = ct::exp(b * 2.0), n = a * 3.0;
  CHECK(values_of(grad({(n + h).sum()}, {n})[0]) == Values{1, 1});
  h.sum().backward();  // nothing of it has been freed
  CHECK(b.grad().defined());
}

TEST_CASE("grad() passes over roots and nodes behind its inputs", "[autograd][grad]") {
  const Tensor a = leaf({2}), b = leaf({5});
  const Tensor h = a * a, k = b * b;
  int on_k = 0, on_a = 0, on_h = 0;
  count(k, on_k);
  count(a, on_a);
  count(h, on_h);
  const std::vector<Tensor> roots = {(h * h).sum(), (k * k).sum()};
  CHECK(values_of(grad(roots, {h})[0]) == Values{8});
  CHECK(on_k == 0);
  CHECK(on_a == 0);
  CHECK(on_h == 1);
  h.sum().backward();
  k.sum().backward();
  CHECK(values_of(a.grad()) == Values{4});
  CHECK(values_of(b.grad()) == Values{10});
}

TEST_CASE("grad(): an input may lie behind another, and be asked for twice", "[autograd][grad]") {
  const Tensor x = leaf({2, 3});
  const Tensor h = x * x;
  const Tensor y = (h * h).sum();
  const auto g = grad({y}, {x, h, x, h});
  CHECK(values_of(g[0]) == Values{32, 108});
  CHECK(values_of(g[1]) == Values{8, 18});
  CHECK(values_of(g[2]) == values_of(g[0]));
  CHECK(values_of(g[3]) == values_of(g[1]));
  const Tensor root = (x * 1.0).sum();
  CHECK(values_of(grad({root}, {root})[0]) == Values{1});
}

TEST_CASE("grad(): outputs of one node, each for itself", "[autograd][grad]") {
  const Tensor x = leaf({1, 2, 3, 4});
  const std::vector<Tensor> parts = x.unbind(0);
  const Tensor y = parts[0] * 10.0 + parts[2] * parts[3];
  const auto g = grad({y}, {parts[2], parts[0], parts[1]}, {.retain_graph = true, .allow_unused = true});
  CHECK(values_of(g[0]) == Values{4});
  CHECK(values_of(g[1]) == Values{10});
  CHECK_FALSE(g[2].defined());
  CHECK(values_of(grad({y}, {x})[0]) == Values{10, 0, 4, 3});
}

TEST_CASE("grad() through recomputed parts", "[autograd][grad]") {
  const Tensor x = leaf({2, 3}), captured = leaf({5, 7}), other = leaf({1, 1}), elsewhere = leaf({1, 1});
  int calls = 0, inner = 0, outer = 0;
  const Tensor before = x * 1.0, made = captured * 1.0;
  const Tensor h = ct::recompute(
      [&](const Tensor& t) {
        ++calls;
        const Tensor side = other * 2.0;
        if (side.requires_grad()) count(side, inner);
        return t * made + side;
      },
      before);
  count(h, outer);
  const Tensor y = (h * 3.0).sum();
  calls = 0;
  const ct::GradOptions keep{.retain_graph = true, .allow_unused = true};
  CHECK(values_of(grad({y}, {x}, keep)[0]) == Values{15, 21});
  CHECK(values_of(grad({y}, {made}, keep)[0]) == Values{6, 9});
  CHECK(values_of(grad({y}, {captured}, keep)[0]) == Values{6, 9});
  CHECK(calls == 3);
  CHECK(inner == 0);  // recorded anew each time, and leads elsewhere
  CHECK(outer == 3);
  // The output itself: nothing behind it is wanted.
  CHECK(values_of(grad({y}, {h}, {})[0]) == Values{3, 3});
  CHECK(calls == 3);
  CHECK(outer == 4);
  // Older than the recomputed part, and not reached by it: it is looked at, and stays as it was.
  CHECK_FALSE(grad({(h * 3.0).sum()}, {elsewhere}, {.allow_unused = true})[0].defined());
  CHECK(calls == 4);
  CHECK(outer == 4);
  (h * 3.0).sum().backward();
  CHECK(values_of(x.grad()) == Values{15, 21});
  CHECK(values_of(other.grad()) == Values{6, 6});
}

TEST_CASE("grad() of a weight that an op widens for", "[autograd][grad]") {
  const Tensor w = ct::from_vector<float>({1, 2, 3, 4}, {2, 2}).set_requires_grad();
  const Tensor other = ct::from_vector<float>({1, 2, 3, 4}, {2, 2}).set_requires_grad();
  const Tensor x = ct::ones({1, 2}, {.dtype = ct::bf16});
  const Tensor low = w.to(ct::bf16), low_other = other.to(ct::bf16);
  const Tensor y = ct::matmul(x, low).sum() + ct::matmul(x, low_other).sum();
  int calls = 0;
  count(low_other, calls);
  const auto g = grad({y}, {w}, {.retain_graph = true});
  CHECK(g[0].dtype() == ct::f32);
  CHECK(values_of(g[0]) == Values{1, 1, 1, 1});
  CHECK(grad({y}, {low}, {.retain_graph = true})[0].dtype() == ct::bf16);
  const auto both = grad({y}, {w, low}, {.retain_graph = true});
  CHECK(values_of(both[0]) == Values{1, 1, 1, 1});
  CHECK(both[1].dtype() == ct::bf16);
  CHECK(calls == 0);
  CHECK(values_of(grad({y}, {other})[0]) == Values{1, 1, 1, 1});
}

TEST_CASE("grad() decides on 100,000 nodes without recursion", "[autograd][grad]") {
  const Tensor x = leaf({1}), w = leaf({1});
  Tensor y = x, other = w;
  for (int i = 0; i < 50000; ++i) y = y + x, other = other + w;
  CHECK(values_of(grad({y + other}, {x})[0]) == Values{50001});
}

TEST_CASE("a leaf that wants no gradient for a while keeps its place", "[autograd][grad]") {
  Tensor x = leaf({3});
  const Tensor y = (x * x).sum();
  x.set_requires_grad(false);
  x.set_requires_grad(true);
  CHECK(values_of(grad({y}, {x}, {.retain_graph = true})[0]) == Values{6});
  y.backward();
  CHECK(values_of(x.grad()) == Values{6});
}
