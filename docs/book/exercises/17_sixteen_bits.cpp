#include <cotangent/cotangent.h>

#include <book.h>

#include <17_sixteen_bits.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

// Judges Scaler by the library's, over trainings in which some gradients do not fit.
// wrong: scale_ /= 2;\n      good_ = 0; ==> scale_ /= 2;
// wrong: std::isfinite(g) ==> !std::isinf(g)

namespace {

std::string listed(const std::vector<float>& numbers) {
  std::string text;
  for (const float x : numbers) text += " " + std::to_string(x);
  return text;
}

/// One training: in each step a parameter of three numbers gets gradients, of which one may be infinite or NaN.
void check(unsigned seed, int interval, unsigned one_in) {
  const std::string training = "growth after " + std::to_string(interval) + " steps, one in " +
                               std::to_string(one_in) + " does not fit: ";
  std::mt19937 draw(seed);
  ct::Tensor w = ct::zeros({3});
  w.set_requires_grad();
  ct::optim::SGD sgd({w}, {.lr = 1});
  ct::optim::GradScaler library({.init_scale = 1024, .growth_interval = interval});
  answer::Scaler yours(1024, interval);
  std::vector<float> own(3);
  for (int step = 0; step < 60; ++step) {
    const double scale = library.get_scale();
    book::claim(yours.scale() == scale, training + "the scale before step " + std::to_string(step) + " is " +
                                            std::to_string(scale) + ", not " + std::to_string(yours.scale()));
    std::vector<float> g;
    for (int i = 0; i < 3; ++i) g.push_back(static_cast<float>(scale * static_cast<double>(draw() % 64) / 8));
    if (draw() % one_in == 0) {
      const float infinity = std::numeric_limits<float>::infinity();
      const float values[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};
      g[draw() % 3] = values[draw() % 3];
    }
    (library.scale(w.sum())).backward();  // gives w a gradient, which the drawn one replaces
    w.grad().copy_(ct::from_vector(g));
    library.step(sgd);
    library.update();
    const std::string given = listed(g);
    if (yours.step(g))
      for (std::size_t i = 0; i < 3; ++i) own[i] -= g[i];
    const std::vector<float> right = w.detach().to_vector<float>();
    book::claim(own == right, training + "step " + std::to_string(step) + " got the gradients" + given +
                                  " at scale " + std::to_string(scale) + "; the parameter is then" +
                                  listed(right) + ", not" + listed(own));
  }
  std::printf("%s60 steps as the library's, scale at the end %g\n", training.c_str(), yours.scale());
}

void judge() {
  check(1, 5, 1000);
  check(2, 3, 4);
  check(3, 4, 3);
  check(4, 1, 2);
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
