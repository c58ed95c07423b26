#include <book.h>

#include <20_several_gpus.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

// Judges all_reduce() on a ring of 1 to 9 ranks: sums, the same bits everywhere, what each rank sends, and in how many rounds.
// wrong: (add ? 0 : 1) ==> (add ? 0 : 2)
// wrong: {true, false} ==> {true, true}

namespace {

void check(int p, std::size_t n) {
  std::mt19937 draw(static_cast<unsigned>(p));
  std::vector<std::vector<double>> whole(static_cast<std::size_t>(p)), parts = whole;
  std::vector<double> sum(n);
  for (std::size_t r = 0; r < whole.size(); ++r)
    for (std::size_t i = 0; i < n; ++i) {
      whole[r].push_back(static_cast<double>(draw() % 1000));
      parts[r].push_back(whole[r][i] / 7);
      sum[i] += whole[r][i];
    }
  const std::string of = " of " + std::to_string(p) + " ranks and " + std::to_string(n) + " numbers";
  book::Wires w(whole, true), fractions(parts, true);
  answer::all_reduce(w);
  const std::size_t ranks = whole.size(), most = *std::max_element(w.sent.begin(), w.sent.end());
  const std::size_t wanted = 2 * (ranks - 1) * ((n + ranks - 1) / ranks);
  const int rounds = 2 * (p - 1);
  std::printf("%d ranks, %4zu numbers: each sends %5zu at most, wanted %4zu; %3d rounds, wanted %2d\n", p, n,
              most, wanted, w.rounds, rounds);
  for (std::size_t r = 0; r < ranks; ++r)
    book::claim(w.values[r] == sum, "rank " + std::to_string(r) + of + " has the sum");
  answer::all_reduce(fractions);
  for (const auto& found : fractions.values)
    book::claim(found == fractions.values[0], "all" + of + " have the same bits");
  book::claim(most <= wanted, "no rank" + of + " sends more than 2 (p - 1) parts");
  book::claim(w.rounds <= rounds, "the sum" + of + " takes 2 (p - 1) rounds");
}

void judge() {
  for (const int p : {1, 2, 3, 4, 8, 9}) check(p, 1000);
  check(4, 3);
  check(3, 0);
  std::printf("right: what a rank sends hardly depends on how many there are\n");
}

}  // namespace

int main() { return book::run(judge); }
