#include <book.h>

#include <10_adding.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

// Judges scatter_add() with twenty orders of arrival of the same numbers.
// wrong: std::pair(a.row, a.position) < std::pair(b.row, b.position) ==> a.row < b.row
// wrong: float sum = 0; ==> double sum = 0;

namespace {

void judge() {
  const std::size_t rows = 7, count = 3000;
  std::mt19937 draw(3);
  std::vector<answer::Arrival> arrivals;
  std::vector<float> wanted(rows);
  for (std::size_t p = 0; p < count; ++p) {
    const float value = static_cast<float>(std::sin(static_cast<double>(p)) * std::pow(2, draw() % 10));
    arrivals.push_back({p, draw() % (rows - 1), value});  // nothing arrives at the last row
    wanted[arrivals.back().row] += value;
  }
  int right = 0;
  std::set<std::vector<float>> found;
  for (int order = 0; order < 20; ++order) {
    for (std::size_t i = count; i > 1; --i) std::swap(arrivals[i - 1], arrivals[draw() % i]);
    const std::vector<float> sums = answer::scatter_add(rows, arrivals);
    found.insert(sums);
    if (sums == wanted) ++right;
  }
  std::printf(
      "20 orders of arrival give %zu different results; %d of 20 are the f32 sums in the order of the "
      "positions, to the bit\n",
      found.size(), right);
  book::claim(found.size() == 1, "the sums do not depend on the order of arrival");
  book::claim(right == 20, "the sums are those of adding in the order of the positions, in f32");
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
