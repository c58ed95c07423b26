#include <book.h>

#include <11b_tensor_cores.h>

#include <algorithm>
#include <map>

// Judges place(): a warp writes a tile row by row, 8 chunks at a time, and reads it chunk by chunk, 8 rows at a time. The 32
// banks of shared memory hold 8 chunks side by side; eight chunks in eight places are one turn.
// wrong: chunk ^ (row & 7) ==> (row * 0 + chunk)
// wrong: chunk ^ (row & 7) ==> (chunk * 2 ^ row) & 7

namespace {

void judge() {
  int turns = 0;
  for (int one = 0; one < 8; ++one) {
    std::map<int, int> of_row, of_chunk;  // how many lie in a place
    for (int other = 0; other < 8; ++other)
      ++of_row[answer::place(one, other)], ++of_chunk[answer::place(other, one)];
    book::claim(of_row.size() == 8 && of_row.begin()->first == 0 && of_row.rbegin()->first == 7,
                "row " + std::to_string(one) + " has its chunks in the places 0 to 7");
    int most = 0;
    for (const auto& [place, count] : of_chunk) most = std::max(most, count);
    turns += most;
  }
  std::printf("a tile is read in %d turns\n", turns);
  book::claim(turns == 8, "it is read in 8");
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
