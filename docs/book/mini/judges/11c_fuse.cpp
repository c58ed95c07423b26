#include <cotangent/cotangent.h>

#include <book.h>
#include <judge.h>

#include <mini.h>

// Judges linear_relu() by the library, by differences, and by what it records.
// hint: the third function that product() is given sees each sum once: what comes after the product belongs there
// hint: linear_back() takes any g(n, o); one that looks at y returns 0 where y is
// wrong: node.values[at] > 0 ? node.grad[at] : 0 ==> node.grad[at]
// wrong: y[n * out + o] = v > 0 ? v : 0; ==> y[n * out + o] = s > 0 ? v : 0;
// wrong: const Size out = w->rows; ==> if (w) return relu(linear(x, w, b));\n  const Size out = w->rows;

namespace {

using mini::Tensor;

void verdict() {
  const Tensor x = mini::leaf(6, 4, judge::waves(24, 0.7), true),
               w = mini::leaf(5, 4, judge::waves(20, 1.3), true),
               b = mini::leaf(1, 5, judge::waves(5, 2.1), true);
  const Tensor y = linear_relu(x, w, b);
  book::claim(y->inputs.size() == 3 && y->inputs[0] == x && y->inputs[1] == w && y->inputs[2] == b,
              "between y and x, w, b there is no other node");
  const auto f = [&] {
    const Tensor h = linear_relu(x, w, b);
    return total(add(mul(h, h), h));
  };
  backward(f());
  const ct::Tensor p = judge::theirs(*x), q = judge::theirs(*w),
                   r = judge::theirs(*b).view(5).detach().set_requires_grad();
  const ct::Tensor h = ct::relu(ct::linear(p, q, r));
  ct::sum(h * h + h).backward();
  judge::same(y->values, h.detach(), "y is the library's");
  judge::same(x->grad, p.grad(), "the gradient of x is the library's");
  judge::same(w->grad, q.grad(), "the gradient of w is the library's");
  judge::same(b->grad, r.grad(), "the gradient of b is the library's");
  for (const Tensor& leaf : {x, w, b})
    book::claim(worst_slope(leaf, f) < 1e-7, "slopes and differences agree");
  std::printf("y, dx, dw and db are those of ct::relu(ct::linear(x, w, b)), by one node\n");
}

}  // namespace

int main() { return book::run(verdict); }
