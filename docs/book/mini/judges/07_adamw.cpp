#include <cotangent/cotangent.h>

#include <book.h>
#include <judge.h>

#include <mini.h>

// Judges AdamW by ten steps of the library's.
// hint: m and v begin at 0 and are too small at first: 1 - beta^t is how much of them has arrived
// hint: the decay, (1 - lr weight_decay) p, sees neither m nor v
// wrong: const double g = p.grad[i]; ==> const double g = p.grad[i] + weight_decay * p.values[i];
// wrong: std::pow(beta1, steps) ==> std::pow(beta1, steps + 1)
// wrong: std::sqrt(v[n][i] / correct_v) + eps ==> std::sqrt(v[n][i] / correct_v + eps)

namespace {

using mini::Tensor;

void verdict() {
  const Tensor p = mini::leaf(1, 3, {1.0, -2.0, 0.5}, true), other = mini::leaf(1, 1, {7}, true);
  const Tensor steepness = mini::leaf(1, 3, {1, 3e-6, 0.1});
  const ct::Tensor q = judge::theirs(*p), steep = judge::theirs(*steepness).detach();
  ct::optim::AdamW theirs({q}, {.lr = 0.05, .weight_decay = 0.1});
  mini::AdamW ours{.parameters = {other, p}, .lr = 0.05, .weight_decay = 0.1};
  for (int t = 1; t <= 10; ++t) {
    theirs.zero_grad(), ours.zero_grad();
    ct::sum(steep * q * q).backward();
    backward(total(mul(steepness, mul(p, p))));
    theirs.step(), ours.step();
    const std::vector<double> want = q.detach().to_vector<double>();
    std::printf("step %2d: %.6f %.6f %.6f, the library's %.6f %.6f %.6f\n", t, p->values[0], p->values[1],
                p->values[2], want[0], want[1], want[2]);
    judge::same(p->values, q.detach(), "every step is the library's", 1e-10);
  }
  book::claim(other->values[0] == 7, "what has no gradient does not move");
  const auto f = [&] { return total(mul(steepness, mul(p, p))); };
  book::claim(worst_slope(p, f) < 1e-8, "the slopes that it went by are those of differences");
}

}  // namespace

int main() { return book::run(verdict); }
