#include <book.h>

#include <04_jacobians.h>

#include <cmath>
#include <vector>

// Judges normalize_vjp() by central differences with a cotangent that has no symmetry.
// wrong: (g[i] - mean - f.y[i] * along) ==> (g[i] - mean)
// wrong:  / f.deviation); ==> );

namespace {

void judge() {
  std::vector<double> x = {0.3, -1.1, 2.0, 0.7, -0.2};
  const std::vector<double> g = {0.9, -0.4, 0.25, 1.3, -0.8};
  const std::vector<double> dx = answer::normalize_vjp(g, answer::normalize(x));
  const auto L = [&] {
    double sum = 0;
    const auto y = answer::normalize(x).y;
    for (std::size_t j = 0; j < g.size(); ++j) sum += g[j] * y[j];
    return sum;
  };
  const double eps = 5e-6;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + eps;
    const double up = L();
    x[i] = at - eps;
    const double difference = (up - L()) / (2 * eps);
    x[i] = at;
    std::printf("dx_%zu: yours %9.6f, by differences %9.6f\n", i, dx[i], difference);
    book::claim(std::abs(dx[i] - difference) < 1e-8, "they agree to 1e-8");
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
