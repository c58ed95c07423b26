#include <cotangent/cotangent.h>

#include <book.h>
#include <judge.h>

#include <mini.h>

// Judges slopes of mul, relu and of a wrong op.
// hint: mul(x, x) hands on to x twice: add to into(), and all is well
// hint: relu's own result says where it let something through
// hint: below a NoGrad f() costs no nodes; take the slopes of the tape before, with x->into(), which has zeros if none came
// wrong: a.into()[i] += n.grad[i] * b.values[i] ==> a.into()[i] = n.grad[i] * b.values[i]
// wrong: n.values[i] > 0 ? n.grad[i] : 0 ==> n.grad[i]
// wrong: worst = std::max(worst, ==> worst = std::min(worst,

namespace {

using mini::Tensor;

void verdict() {
  const Tensor x = mini::leaf(2, 3, judge::waves(6, 0.7), true),
               y = mini::leaf(2, 3, judge::waves(6, 1.3), true);
  const auto f = [&] { return total(mul(relu(mul(x, x)), add(relu(x), mul(x, y)))); };
  backward(f());
  const ct::Tensor p = judge::theirs(*x), q = judge::theirs(*y);
  const ct::Tensor theirs = ct::sum(ct::relu(p * p) * (ct::relu(p) + p * q));
  theirs.backward();
  std::printf("f = %.6f, the library's %.6f\n", f()->values[0], theirs.item());
  judge::same(x->grad, p.grad(), "the gradient of x is the library's");
  judge::same(y->grad, q.grad(), "the gradient of y is the library's");
  const std::vector<double> values = x->values;
  const double off = worst_slope(x, f);
  std::printf("worst_slope of f: %.1e\n", off);
  book::claim(off < 1e-8, "slopes and differences agree");
  book::claim(x->values == values && x->grad.empty(), "x has its values, and no gradient, in the end");

  const Tensor zero = mini::leaf(1, 1, {0}, true);
  backward(total(relu(zero)));
  book::claim(zero->into()[0] == 0, "relu's slope at 0 is 0");

  // Right in each element but the first, where it is off by 0.1 of 2.
  const auto wrong = [&] {
    return mini::record(1, 1, {2 * x->values[0] + 3 * x->values[5]}, {x}, [](const mini::Node& n) {
      n.inputs[0]->into()[0] += 2.1 * n.grad[0], n.inputs[0]->into()[5] += 3 * n.grad[0];
    });
  };
  const double found = worst_slope(x, wrong);
  std::printf("worst_slope of an op whose slope is 2.1 in place of 2: %.4f\n", found);
  book::claim(std::abs(found - 0.1 / 3) < 1e-6, "a wrong slope is found, wherever it is");
  x->grad = {1, 1, 1, 1, 1, 1};
  book::claim(worst_slope(x, f) < 1e-8, "a gradient that x had before is no slope of f");
  book::claim(worst_slope(x, [&] { return total(y); }) == 0, "what f does not use has slope 0");
}

}  // namespace

int main() { return book::run(verdict); }
