#include <book.h>

#include <22_again.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

// Judges example(): each comes once, epochs and seeds differ, and an order looks drawn: neighbours, places, and first halves.
// wrong: mixed(mixed(seed) + epoch) ==> mixed(mixed(seed) + epoch / 2)
// wrong: } while (i >= n); ==> } while (false);\n  i %= n;

namespace {

void check(std::uint64_t n) {
  const std::string of = " of " + std::to_string(n) + " examples";
  std::vector<std::vector<std::uint64_t>> orders;
  for (const std::uint64_t seed : {1u, 2u})
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      std::vector<std::uint64_t> order;
      std::vector<int> seen(n);
      for (std::uint64_t i = 0; i < n; ++i) {
        order.push_back(answer::example(i, n, epoch, seed));
        book::claim(order.back() < n, "each" + of + " is below " + std::to_string(n));
        book::claim(++seen[order.back()] == 1, "each" + of + " comes once in an epoch; " +
                                                   std::to_string(order.back()) + " comes twice");
      }
      for (std::uint64_t i = 0; i < n; ++i)
        book::claim(answer::example(i, n, epoch, seed) == order[i],
                    "the order" + of + " is the same when asked for again");
      orders.push_back(order);
    }
  std::printf("%6d: each once in an epoch\n", static_cast<int>(n));
  if (n < 100) return;
  const auto size = static_cast<double>(n);
  for (std::size_t a = 0; a < orders.size(); ++a) {
    const std::vector<std::uint64_t>& order = orders[a];
    std::set<std::uint64_t> steps;
    double near = 0, low = 0;
    for (std::uint64_t i = 0; i + 1 < n; ++i) {
      const std::uint64_t step = (order[i + 1] + n - order[i]) % n;
      steps.insert(step);
      near += static_cast<double>(step * 10 < n || step * 10 > 9 * n) / size;
      low += static_cast<double>(i < n / 2 && order[i] < n / 2) / size;
    }
    // In n drawn steps a share of 1 - 1/e is different, a fifth is short, and of the first half of the order half is of the first half.
    const double slack = 4 / std::sqrt(size);
    book::claim(static_cast<double>(steps.size()) > 0.5 * size,
                "from one to the next" + of + " it goes by more than " + std::to_string(n / 2) +
                    " different steps; yours by " + std::to_string(steps.size()));
    book::claim(std::abs(near - 0.2) < slack,
                "a fifth of the steps" + of + " is shorter than a tenth of all");
    book::claim(std::abs(low - 0.25) < slack, "the first half of an order" + of + " is drawn from all");
    for (std::size_t b = 0; b < a; ++b) {
      double equal = 0;
      for (std::uint64_t i = 0; i < n; ++i) equal += order[i] == orders[b][i];
      book::claim(equal < 10, "epochs and seeds" + of + " have different orders");
    }
  }
  std::printf("        and in an order that looks drawn\n");
}

void judge() {
  for (const std::uint64_t n : {1, 2, 3, 7, 64, 65, 1000, 4096, 10007}) check(n);
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
