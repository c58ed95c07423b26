#include <book.h>
#include <cache.h>

#include <08_fast.h>

// Judges transpose() by what it fetches through a cache of 64 lines.
// wrong: side = 16 ==> side = 2
// wrong: side = 16 ==> side = 4096

namespace {

void judge() {
  const std::size_t shapes[][2] = {{128, 128}, {96, 160}, {40, 200}};
  for (const auto& [rows, columns] : shapes) {
    book::Cache cache(64);
    book::WatchedMatrix from(cache, rows, columns), to(cache, columns, rows);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) from(i, j) = static_cast<float>(i * columns + j);
    const long before = cache.fetched;
    answer::transpose(from, to);
    const long fetched = cache.fetched - before, least = static_cast<long>(2 * rows * columns / 16);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        book::claim(to.values()[j * rows + i] == from.values()[i * columns + j], "to(j, i) = from(i, j)");
    std::printf("%zu x %zu: %ld lines, where %ld are the least\n", rows, columns, fetched, least);
    book::claim(fetched <= 2 * least, "no more than twice the least number of lines is fetched");
  }
  std::printf("right\n");
}

}  // namespace

int main() { return book::run(judge); }
