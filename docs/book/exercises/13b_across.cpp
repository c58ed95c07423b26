#include <book.h>

#include <13b_across.h>

#include <set>
#include <string>

// Judges query() by the queries that all blocks want at each step.
// wrong: (j + step) % blocks ==> (step + 0 * j) % blocks
// wrong: mask ? j + step : ==> mask ? (j + step) % blocks / (j + 1) :

namespace {

void judge() {
  for (const bool mask : {true, false})
    for (const int blocks : {1, 2, 7, 32}) {
      for (int step = 0; step < blocks; ++step) {
        std::set<int> wanted;
        for (int j = 0; j < blocks && (!mask || j + step < blocks); ++j) {
          const int i = answer::query(j, step, blocks, mask);
          book::claim(i >= (mask ? j : 0) && i < blocks,
                      "block " + std::to_string(j) + " has no query " + std::to_string(i));
          book::claim(wanted.insert(i).second, std::string(mask ? "masked: " : "") + "at step " +
                                                   std::to_string(step) + " one block has query " +
                                                   std::to_string(i));
        }
      }
      for (int j = 0; j < blocks; ++j) {
        std::set<int> seen;
        const int count = mask ? blocks - j : blocks;
        for (int step = 0; step < count; ++step) seen.insert(answer::query(j, step, blocks, mask));
        book::claim(static_cast<int>(seen.size()) == count, "each block adds to each of its queries");
      }
    }
  std::printf("32 blocks of keys, 32 of queries: 32 steps, nobody waits\nright\n");
}

}  // namespace

int main() { return book::run(judge); }
