#include <book.h>

#include <02_tape.h>

#include <cmath>

// Judges sigmoid() and maximum(): their slopes against differences.
// wrong: y * (1 - y)}} ==> 1 - y}}
// wrong: {{larger.at, 1}} ==> {{a.at, 1}}

namespace {

using book::Tape;
using book::Var;

double f(bool both, double a, double b, double (&g)[2]) {
  Tape tape;
  const Var x = input(tape, a), y = input(tape, b);
  const Var left = answer::sigmoid(x) * y, right = answer::sigmoid(y) * x;
  const Var result = both ? answer::maximum(left, right) : left + right;
  const auto all = tape.backward(result.at);
  g[0] = all[x.at], g[1] = all[y.at];
  return result.value();
}

void judge() {
  const double points[][2] = {{0.3, -1.2}, {-2, 0.5}, {1.5, 2.5}, {4, -3}};
  for (const bool both : {false, true})
    for (const auto& [a, b] : points) {
      double g[2], unused[2];
      const double eps = 1e-5;
      f(both, a, b, g);
      const double da = (f(both, a + eps, b, unused) - f(both, a - eps, b, unused)) / (2 * eps);
      const double db = (f(both, a, b + eps, unused) - f(both, a, b - eps, unused)) / (2 * eps);
      std::printf("%s at a, b = (%g, %g): your slopes %.6f and %.6f, differences %.6f and %.6f\n",
                  both ? "max(sigmoid(a) b, sigmoid(b) a)" : "sigmoid(a) b + sigmoid(b) a", a, b, g[0], g[1],
                  da, db);
      book::claim(std::abs(g[0] - da) < 1e-8 && std::abs(g[1] - db) < 1e-8,
                  "slopes and differences agree to 1e-8");
    }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
