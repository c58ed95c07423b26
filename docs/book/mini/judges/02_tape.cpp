#include <cotangent/cotangent.h>

#include <book.h>
#include <judge.h>

#include <mini.h>

// Judges backward() by differences and by the library's.
// hint: nodes behind the loss are found by a list that grows while one walks through it; a set says who is in it already
// hint: sorted by number, the largest first, a node's gradient is complete before it is handed on
// hint: after n->back(*n) the gradient of n has been used, and a second backward() must not find it again
// wrong: a->number > b->number ==> a->number < b->number
// wrong: n->back(*n), n->grad.clear(); ==> n->back(*n);
// wrong: in->wants_grad && ==> true &&

namespace {

using mini::Node;
using mini::Tensor;

std::size_t numbered = 0;

Tensor number(double value, bool wants_grad = true) {
  auto n = std::make_shared<Node>();
  n->number = numbered++, n->values = {value}, n->wants_grad = wants_grad;
  return n;
}

Tensor made(double value, double slope_a, double slope_b, const Tensor& a, const Tensor& b) {
  const Tensor n = number(value, true);
  n->inputs = {a, b};
  n->back = [slope_a, slope_b](const Node& node) {
    book::claim(node.grad.size() == 1, "a node is visited when it has a gradient");
    node.inputs[0]->into()[0] += node.grad[0] * slope_a;
    node.inputs[1]->into()[0] += node.grad[0] * slope_b;
  };
  return n;
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return made(a->values[0] * b->values[0], b->values[0], a->values[0], a, b);
}
Tensor operator+(const Tensor& a, const Tensor& b) { return made(a->values[0] + b->values[0], 1, 1, a, b); }

/// Uses x both early and late, so that the order of the walk shows.
Tensor f(const Tensor& x, const Tensor& y) {
  const Tensor a = x * y, b = a * a, c = b + x, d = c * a;
  return d * x + b;
}

void verdict() {
  const Tensor x = number(0.7), y = number(-1.3);
  backward(f(x, y));
  const double eps = 1e-5;
  const auto at = [&](double dx, double dy) { return f(number(0.7 + dx), number(-1.3 + dy))->values[0]; };
  const double dx = (at(eps, 0) - at(-eps, 0)) / (2 * eps), dy = (at(0, eps) - at(0, -eps)) / (2 * eps);
  std::printf("your slopes %.6f and %.6f, differences %.6f and %.6f\n", x->grad[0], y->grad[0], dx, dy);
  book::claim(std::abs(x->grad[0] - dx) < 1e-8 && std::abs(y->grad[0] - dy) < 1e-8,
              "slopes and differences agree to 1e-8");
  const ct::Tensor p = ct::tensor(0.7, {.dtype = ct::f64}).set_requires_grad(),
                   q = ct::tensor(-1.3, {.dtype = ct::f64}).set_requires_grad();
  const ct::Tensor a = p * q, b = a * a;
  ct::Tensor((b + p) * a * p + b).backward();
  book::claim(
      std::abs(x->grad[0] - p.grad().item()) < 1e-12 && std::abs(y->grad[0] - q.grad().item()) < 1e-12,
      "the slopes are the library's");

  const Tensor once = number(3);
  const Tensor square = once * once, sum = square + square;
  backward(sum), backward(sum);
  std::printf("d(x x + x x)/dx at 3, twice: %g\n", once->grad[0]);
  book::claim(once->grad[0] == 24, "a second backward() adds the same to the leaves once more");

  const Tensor u = number(1);
  Tensor z = u;
  for (int i = 0; i < 18; ++i) z = z + z;
  backward(z);
  std::printf("z = z + z, 18 times: slope %g\n", u->grad[0]);
  book::claim(u->grad[0] == 262144, "each node is visited once");

  const Tensor constant = number(5, false), w = number(2);
  Tensor behind = number(1, false);
  constant->inputs = {behind},
  constant->back = [](const Node&) { book::claim(false, "nobody walks to what wants no gradient"); };
  backward(constant * w);
  book::claim(w->grad[0] == 5, "a constant's slope is handed out");
}

}  // namespace

int main() { return book::run(verdict); }
