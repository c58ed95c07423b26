#include <book.h>

#include <12_rows.h>

#include <cmath>
#include <vector>

// Judges join(): the variance of a row far from 0, of parts joined in pairs and of parts joined one after the other.
// wrong: d * d * a.count * share ==> d * d * share
// wrong: a.mean + d * share ==> (a.mean + b.mean) / 2

namespace {

answer::Part in_pairs(const float* x, std::size_t n) {
  return n == 1 ? answer::of_one(x[0]) : join(in_pairs(x, n / 2), in_pairs(x + n / 2, n - n / 2));
}

void judge() {
  std::vector<float> x;
  for (int i = 0; i < 3000; ++i) x.push_back(1e4f + static_cast<float>(i % 5) + (i < 1000 ? 7.f : 0.f));
  double mean = 0, variance = 0;
  for (const float v : x) mean += v / 3000.0;
  for (const float v : x) variance += (v - mean) * (v - mean) / 3000;
  const answer::Part pairs = in_pairs(x.data(), x.size());
  answer::Part chain = answer::of_one(x[0]);
  for (std::size_t i = 1; i < x.size(); ++i) chain = join(chain, answer::of_one(x[i]));
  for (const answer::Part& part : {pairs, chain}) {
    std::printf("%.0f numbers, mean %.3f of %.3f, variance %.4f of %.4f\n", part.count, part.mean, mean,
                part.squares / part.count, variance);
    book::claim(part.count == 3000 && std::abs(part.mean - mean) < 0.05, "count and mean are right");
    book::claim(std::abs(part.squares / part.count - variance) < 2e-3 * variance,
                "the variance is right to 0.2 %");
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
