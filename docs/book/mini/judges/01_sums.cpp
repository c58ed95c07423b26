#include <cotangent/cotangent.h>

#include <book.h>
#include <judge.h>

#include <mini.h>

// Judges sums by f64 and by the library.
// hint: a function that calls itself for each half is three lines; the middle is first + (last - first) / 2
// hint: e^1000 is infinite; log(e^a + e^b) = c + log(e^(a - c) + e^(b - c)) for any c, and one c leaves no exponent above 0
// wrong: last - first > 8 ==> last - first > 800000000
// wrong: x(i) - largest ==> x(i)

namespace {

void verdict() {
  const auto tenth = [](std::size_t) { return 0.1f; };
  const double exact = 1e7 * static_cast<double>(0.1f);
  const float total = mini::sum(0, 10'000'000, tenth);
  std::printf("ten million tenths in f32: %.1f\n", static_cast<double>(total));
  book::claim(std::abs(total - exact) < 1e-6 * exact, "a sum in pairs of f32 keeps six digits");
  long asked = 0;
  const auto counted = [&](std::size_t i) { return ++asked, static_cast<double>(i); };
  for (const std::size_t n : {0, 1, 7, 8, 9, 100}) {
    asked = 0;
    const double found = mini::sum(0, n, counted), wanted = static_cast<double>(n * (n - (n > 0))) / 2;
    book::claim(found == wanted && asked == static_cast<long>(n),
                "each of " + std::to_string(n) + " terms is added once");
  }
  book::claim(mini::sum(3, 6, counted) == 12, "a sum begins with its first term");
  for (const double move : {0., 1000., -1000.}) {
    std::vector<double> x = judge::waves(37, 0.7);
    for (double& v : x) v += move;
    const double found = mini::log_sum_exp(x.size(), [&](std::size_t i) { return x[i]; });
    const double wanted = ct::logsumexp(ct::from_vector(x), 0).item();
    std::printf("log_sum_exp of numbers around %5g: %.6f, the library's %.6f\n", move, found, wanted);
    book::claim(std::abs(found - wanted) < 1e-9, "log_sum_exp is the library's");
  }
}

}  // namespace

int main() { return book::run(verdict); }
