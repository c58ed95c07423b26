#include <cotangent/cotangent.h>

#include <book.h>
#include <judge.h>

#include <mini.h>

// Judges linear() and cross_entropy() by the library and by differences.
// hint: product(m, n, k, a, b, c) calls c(i, j, s) once for each number s of a [m, k] times b [k, n]
// hint: dw [out, in] is g^T [out, N] times x [N, in]; a lambda with its arguments exchanged is a transposed g
// hint: log softmax(x)_c = x_c - lse, so the loss of a row is lse - x_label, and softmax is e^(x_c - lse)
// wrong: transposed, view(x) ==> (void(transposed), g), view(x)
// wrong: d[o * in + i] += s ==> d[o * in + i] = s
// wrong: node.grad[0] * (std::exp ==> (std::exp
// wrong: (std::exp(x(n, c) - whole) - (c == labels[n] ? 1 : 0)) / Real(x.rows) ==> (std::exp(x(n, c) - whole) - (c == labels[n] ? 1 : 0))

namespace {

using mini::Tensor;

void verdict() {
  const Tensor x = mini::leaf(5, 5, judge::waves(25, 0.7), true),
               w = mini::leaf(5, 5, judge::waves(25, 1.3), true),
               b = mini::leaf(1, 5, judge::waves(5, 2.1), true);
  const std::vector<std::size_t> labels = {2, 0, 4, 4, 1};
  const auto f = [&] { return cross_entropy(linear(linear(x, w, b), w, b), labels); };
  const Tensor loss = f();
  backward(loss);
  const ct::Tensor p = judge::theirs(*x), q = judge::theirs(*w),
                   r = judge::theirs(*b).view(5).detach().set_requires_grad();
  const ct::Tensor theirs =
      ct::cross_entropy(ct::linear(ct::linear(p, q, r), q, r), ct::tensor({std::int64_t{2}, 0, 4, 4, 1}));
  theirs.backward();
  std::printf("loss %.6f, the library's %.6f\n", loss->values[0], theirs.item());
  book::claim(std::abs(loss->values[0] - theirs.item()) < 1e-12, "the loss is the library's");
  judge::same(x->grad, p.grad(), "the gradient of x is the library's");
  judge::same(w->grad, q.grad(), "the gradient of w, used twice, is the library's");
  judge::same(b->grad, r.grad(), "the gradient of b is the library's");
  for (const Tensor& leaf : {x, w, b})
    book::claim(worst_slope(leaf, f) < 1e-8, "slopes and differences agree");
  const auto twice = [&] {
    const Tensor once = f();
    return add(once, once);
  };
  book::claim(worst_slope(b, twice) < 1e-8,
              "cross_entropy's own gradient, here of 2 f, is a factor of those behind it");

  const Tensor wide = mini::leaf(3, 4, judge::waves(12, 0.9), true),
               v = mini::leaf(2, 4, judge::waves(8, 0.4), true), c = mini::leaf(1, 2, {0.3, -0.2}, true);
  const auto narrow = [&] { return cross_entropy(linear(wide, v, c), {1, 0, 1}); };
  for (const Tensor& leaf : {wide, v, c})
    book::claim(worst_slope(leaf, narrow) < 1e-8, "sizes that differ have their places");
  const Tensor large = mini::leaf(1, 2, {1000, 0}, true);
  backward(cross_entropy(large, {1}));
  book::claim(large->grad[0] == 1 && large->grad[1] == -1, "scores of 1000 do not overflow");
}

}  // namespace

int main() { return book::run(verdict); }
