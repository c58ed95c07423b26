#include <cotangent/cotangent.h>

#include <book.h>

#include <17_sixteen_bits.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

// Judges Scaler by the library's, over trainings in which some gradients do not fit, and eight bits by what a weight may be off.
// wrong: scale_ /= 2;\n      good_ = 0; ==> scale_ /= 2;
// wrong: std::isfinite(g) ==> !std::isinf(g)
// wrong: std::nearbyint( ==> std::trunc(
// wrong: largest = std::max(largest, std::fabs(w[o * columns + i])) ==> largest = std::max(largest, w[o * columns + i])
// wrong: y[o] = w.scale[o] * sum ==> y[o] = w.scale[0] * sum

namespace {

std::string digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", x);
  return text;
}
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

/// Rows of every size, one of zeros and one with a large weight among small ones.
void check_eight_bits() {
  constexpr std::size_t kRows = 6, kColumns = 40;
  std::mt19937 draw(5);
  std::normal_distribution<float> normal;
  std::vector<float> w(kRows * kColumns), x(kColumns);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::size_t row = i / kColumns;
    w[i] = row == 2 ? 0 : normal(draw) * (row == 4 ? 1e-6f : 1);
    if (i == 3 * kColumns + 7) w[i] = -100;
  }
  for (float& number : x) number = normal(draw);
  const answer::EightBits found = answer::quantize(w, kRows);
  book::claim(found.q.size() == w.size() && found.scale.size() == kRows,
              "a number for each weight, a scale for each row");
  const std::vector<float> y = answer::product(x, found);
  for (std::size_t o = 0; o < kRows; ++o) {
    const std::string row = std::to_string(o);
    const double scale = found.scale[o];
    double largest = 0, right = 0, size = 0;
    for (std::size_t i = 0; i < kColumns; ++i)
      largest = std::max(largest, static_cast<double>(std::fabs(w[o * kColumns + i])));
    book::claim(std::abs(scale * 127 - largest) <= 1e-6 * largest,
                "the largest number of row " + row + " is " + digits(largest) + "; 127 times its scale is " +
                    digits(scale * 127));
    for (std::size_t i = 0; i < kColumns; ++i) {
      const double weight = w[o * kColumns + i], back = scale * found.q[o * kColumns + i];
      book::claim(std::abs(back - weight) <= 0.5000001 * scale,
                  "w[" + row + "][" + std::to_string(i) + "] = " + digits(weight) + " came back as " +
                      digits(back) + ", by more than half of the scale " + digits(scale) + " off");
      right += x[i] * back, size += std::abs(x[i] * back);
    }
    book::claim(std::abs(y[o] - right) <= 1e-5 * size,
                "y[" + row + "] is " + digits(right) + ", not " + digits(y[o]));
  }
  std::printf("eight bits: %zu weights by at most half a scale off, and their product\n", w.size());
}

void judge() {
  check(1, 5, 1000);
  check(2, 3, 4);
  check(3, 4, 3);
  check(4, 1, 2);
  check_eight_bits();
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
