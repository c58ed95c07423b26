#include <book.h>

#include <11_products.h>

#include <set>

// Judges place(): a warp writes a tile row by row, 8 chunks at a time, and reads it chunk by chunk, 8 rows at a time. The 32
// banks of shared memory hold 8 chunks side by side; eight chunks in eight places are one access.

namespace {

void judge() {
  int writes = 0, reads = 0;
  for (int one = 0; one < 8; ++one) {
    std::set<int> of_row, of_chunk;
    for (int other = 0; other < 8; ++other) {
      for (const int place : {answer::place(one, other), answer::place(other, one)})
        book::claim(place >= 0 && place < 8, "place() is a number from 0 to 7");
      of_row.insert(answer::place(one, other)), of_chunk.insert(answer::place(other, one));
    }
    book::claim(of_row.size() == 8, "the chunks of row " + std::to_string(one) + " have places of their own");
    writes += 1, reads += 9 - static_cast<int>(of_chunk.size());
  }
  std::printf("a tile is written in %d accesses and read in %d\n", writes, reads);
  book::claim(reads == 8, "it is read in 8 accesses");
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
