#include <book.h>

#include <02_tape.h>

#include <cmath>

// Judges sigmoid() and maximum(): their slopes against differences.
// wrong: y * (1 - y)}} ==> 1 - y}}
// wrong: {{larger.at, 1}} ==> {{a.at, 1}}

namespace {

using book::Tape;
using book::Var;

double f(double a, double b, double (&g)[2]) {
  Tape tape;
  const Var x = input(tape, a), y = input(tape, b);
  const Var result = answer::maximum(answer::sigmoid(x) * y, answer::sigmoid(y) * x);
  const auto all = tape.backward(result.at);
  g[0] = all[x.at], g[1] = all[y.at];
  return result.value();
}

void judge() {
  const double points[][2] = {{0.3, -1.2}, {-2, 0.5}, {1.5, 2.5}, {4, -3}};
  for (const auto& [a, b] : points) {
    double g[2], unused[2];
    const double eps = 1e-5;
    f(a, b, g);
    const double da = (f(a + eps, b, unused) - f(a - eps, b, unused)) / (2 * eps);
    const double db = (f(a, b + eps, unused) - f(a, b - eps, unused)) / (2 * eps);
    std::printf("at (%g, %g): your slopes %.6f and %.6f, differences %.6f and %.6f\n", a, b, g[0], g[1], da,
                db);
    book::claim(std::abs(g[0] - da) < 1e-8 && std::abs(g[1] - db) < 1e-8,
                "slopes and differences agree to 1e-8");
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
