#include <book.h>

#include <13_attention.h>

#include <algorithm>
#include <cmath>
#include <vector>

// Judges join(): the keys of one query, cut at every place, must give what all of them give at once.
// wrong: if (top == -INFINITY) return a; ==>
// wrong: top = std::fmax(a.lse, b.lse) ==> top = 0

namespace {

constexpr std::size_t kKeys = 9;

double score(std::size_t j, double scale) { return scale * std::sin(2.0 * static_cast<double>(j + 1)); }

/// Part of the keys [begin, end), by the definition.
answer::Part of(std::size_t begin, std::size_t end, double scale) {
  answer::Part part{{0, 0}, -INFINITY};
  double top = -INFINITY, sum = 0;
  for (std::size_t j = begin; j < end; ++j) top = std::max(top, score(j, scale));
  for (std::size_t j = begin; j < end; ++j) sum += std::exp(score(j, scale) - top);
  for (std::size_t j = begin; j < end; ++j)
    for (std::size_t c = 0; c < 2; ++c)
      part.y[c] += std::exp(score(j, scale) - top) / sum * std::cos(static_cast<double>(2 * j + c));
  if (begin < end) part.lse = top + std::log(sum);
  return part;
}

void judge() {
  for (const double scale : {1.0, 1000.0}) {
    const answer::Part all = of(0, kKeys, scale);
    for (std::size_t cut = 0; cut <= kKeys; ++cut) {
      const answer::Part joined = join(of(0, cut, scale), of(cut, kKeys, scale));
      std::printf("scores up to %4.0f, %zu and %zu keys: y %.6f %.6f, lse %.6f\n", scale, cut, kKeys - cut,
                  joined.y[0], joined.y[1], joined.lse);
      for (std::size_t c = 0; c < 2; ++c)
        book::claim(std::abs(joined.y[c] - all.y[c]) < 1e-12, "y is that of all keys at once");
      book::claim(std::abs(joined.lse - all.lse) < 1e-12 * scale, "so is lse");
    }
  }
  const answer::Part none = join(of(0, 0, 1), of(0, 0, 1));
  std::printf("no key joined with no key: your y %.6f %.6f, lse %.6f; 0, 0 and -inf are wanted\n", none.y[0],
              none.y[1], none.lse);
  book::claim(none.lse == -INFINITY && none.y[0] == 0 && none.y[1] == 0, "two times no key is no key");
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
