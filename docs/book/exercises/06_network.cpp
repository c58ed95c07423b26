#include <cotangent/cotangent.h>

#include <book.h>

#include <06_network.h>

#include <cmath>

// Judges smooth_cross_entropy() by the library's.
// wrong: (c == label ? 1 - s : 0) ==> (c == label ? 1 : 0)
// wrong: s / static_cast<double>(x.columns) ==> s

namespace {

void judge() {
  const std::vector<double> scores = {0.5, -1.0, 2.0, 0.1};
  for (const double s : {0.0, 0.1, 0.5}) {
    book::Matrix x(1, 4), dx(1, 4);
    x.values = scores;
    const double loss = answer::smooth_cross_entropy(x, 2, s, dx);
    const ct::Tensor t = ct::from_vector(scores, {1, 4}).set_requires_grad();
    const ct::Tensor theirs = ct::cross_entropy(t, ct::tensor({std::int64_t{2}}), {.label_smoothing = s});
    theirs.backward();
    const std::vector<double> d = t.grad().to_vector<double>();
    std::printf("s = %.1f: loss %.6f, the library's %.6f\n", s, loss, theirs.item<double>());
    book::claim(std::abs(loss - theirs.item<double>()) < 1e-12, "the losses are equal");
    for (std::size_t c = 0; c < 4; ++c) {
      std::printf("         dx_%zu  %.6f, the library's %.6f\n", c, dx(0, c), d[c]);
      book::claim(std::abs(dx(0, c) - d[c]) < 1e-12, "the gradients are equal");
    }
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
