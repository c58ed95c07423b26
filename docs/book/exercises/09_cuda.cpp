#include <book.h>
#include <warp.h>

#include <09_cuda.h>

#include <vector>

// Judges element() by who takes what, and by the sectors that warps touch.
// wrong: k * (who.blocks * who.threads) ==> k * who.threads
// wrong: who.block * who.threads + who.thread ==> who.thread * who.blocks + who.block

namespace {

void judge() {
  const long cases[][3] = {{100'000, 13, 256}, {4096, 4, 128}, {1000, 7, 64}};
  for (const auto& [n, blocks, threads] : cases) {
    const long each = (n + blocks * threads - 1) / (blocks * threads);
    std::vector<int> taken(static_cast<std::size_t>(n));
    long fetched = 0;
    for (long block = 0; block < blocks; ++block)
      for (long first = 0; first < threads; first += 32)
        for (long k = 0; k < each; ++k) {
          std::vector<long> addresses;
          for (long lane = 0; lane < 32; ++lane) {
            const long i = answer::element({first + lane, block, threads, blocks}, k, each);
            book::claim(i >= 0, "no element lies before the first");
            if (i >= n) continue;
            ++taken[static_cast<std::size_t>(i)];
            addresses.push_back(4 * i);
          }
          fetched += book::sectors(addresses);
        }
    for (std::size_t i = 0; i < taken.size(); ++i)
      book::claim(taken[i] == 1, "every element has one taker; of " + std::to_string(n) + ", element " +
                                     std::to_string(i) + " has " + std::to_string(taken[i]));
    const long least = (n + 7) / 8;
    std::printf("%ld elements, %ld blocks of %ld: %ld sectors, where %ld are the least\n", n, blocks, threads,
                fetched, least);
    book::claim(fetched == least, "no sector is fetched by two warps, or twice by one");
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
