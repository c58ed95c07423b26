#include <book.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <vector>

// f32 alone: a total in f64 would be right without a thought, so `double` is `float` in the answer. Headers that it may want stand above, where
// they keep theirs.
#define double float
#include <01_numbers.h>
#undef double

// Judges careful_sum().
// wrong: (next - total) - value ==> 0 * value
// wrong: x[i] - lost ==> x[i] + lost

namespace {

void judge() {
  for (const std::size_t n : {1000u, 100'000u, 10'000'000u}) {
    std::vector<float> x(n);
    double truth = 0;
    for (std::size_t i = 0; i < n; ++i) truth += x[i] = 0.1f + 0.1f * static_cast<float>(i % 2);
    const double error = std::abs(answer::careful_sum(x.data(), n) - truth) / truth;
    std::printf("%8zu numbers: off by %.1e of the sum\n", n, error);
    book::claim(error < 1.2e-7, "the sum is as good as one rounding: 1.2e-7");
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
