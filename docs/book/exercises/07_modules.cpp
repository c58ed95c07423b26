#include <cotangent/cotangent.h>

#include <book.h>

#include <07_modules.h>

#include <cmath>
#include <vector>

// Judges AdamW by ten steps of the library's.
// wrong: 1 - lr * weight_decay; ==> 1 - weight_decay;
// wrong: m[i] / (1 - std::pow(beta1, t)) ==> m[i]

namespace {

void judge() {
  std::vector<double> p = {1.0, -2.0, 0.5};
  const ct::Tensor q = ct::from_vector(p).set_requires_grad();
  const ct::Tensor steepness = ct::tensor({1.0, 30.0, 0.1}, {.dtype = ct::f64});
  ct::optim::AdamW theirs({q}, {.lr = 0.05, .weight_decay = 0.1});
  answer::AdamW ours{.lr = 0.05};
  for (int t = 1; t <= 10; ++t) {
    theirs.zero_grad();
    ct::sum(steepness * q * q / 2).backward();
    theirs.step();
    ours.step(p, {1.0 * p[0], 30.0 * p[1], 0.1 * p[2]});
    const std::vector<double> want = q.detach().to_vector<double>();
    std::printf("step %2d: %.6f %.6f %.6f, the library's %.6f %.6f %.6f\n", t, p[0], p[1], p[2], want[0],
                want[1], want[2]);
    for (std::size_t i = 0; i < 3; ++i)
      book::claim(std::abs(p[i] - want[i]) < 1e-10, "every step is the library's");
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
