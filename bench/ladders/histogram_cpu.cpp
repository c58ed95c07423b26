#include "bench/ladders/histogram.h"

#include <algorithm>
#include <array>

#include "bench/ladders/rows_cpu.h"

// The work is an addition to memory for each number, at a place that the number names: no vector does it, and what the
// additions wait for is one another.

namespace ct::ladder::histogram {
namespace {

using Counts = std::array<std::int64_t, kValues>;

void write(const Call& c, const Counts& counts) {
  std::copy(counts.begin(), counts.end(), c.output<std::int64_t>(0));
}

// Loops: the definition. Where a number equals the one before, its count is loaded while the last store to it is still under
// way: some five cycles for an addition that alone takes one.
void loops(const Call& c) {
  Counts counts{};
  for (std::int64_t i = 0; i < c.size(0); ++i)
    ++counts[static_cast<std::size_t>(c.input<std::int32_t>(0)[i])];
  write(c, counts);
}

// Tables: four of them, so that equal neighbours go to different places, and four additions wait at the same time. They are
// joined at the end: whole numbers have the same sum in any order.
Counts tables_of(const std::int32_t* x, std::int64_t n) {
  std::array<Counts, 4> own{};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t k = 0; k < 4; ++k)
      ++own[k][static_cast<std::size_t>(x[i + static_cast<std::int64_t>(k)])];
  for (; i < n; ++i) ++own[0][static_cast<std::size_t>(x[i])];
  for (std::size_t v = 0; v < kValues; ++v) own[0][v] += own[1][v] + own[2][v] + own[3][v];
  return own[0];
}
void tables(const Call& c) { write(c, tables_of(c.input<std::int32_t>(0), c.size(0))); }

// Threads: tables for each chunk, so that no thread waits for another one's line of the cache.
void threads(const Call& c) {
  const std::int64_t grain = 1 << 18;
  std::vector<Counts> parts(static_cast<std::size_t>(chunk_count(c.size(0), grain)));
  parallel_chunks(c.size(0), grain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    parts[static_cast<std::size_t>(chunk)] = tables_of(c.input<std::int32_t>(0) + begin, end - begin);
  });
  Counts counts{};
  for (const Counts& part : parts)
    for (std::size_t v = 0; v < kValues; ++v) counts[v] += part[v];
  write(c, counts);
}

const bool kAdded = [] {
  Ladder ladder =
      described(DeviceType::cpu, {{"loops", "the definition: equal neighbours wait for one another", loops},
                                  {"tables", "four tables: four additions under way", tables},
                                  {"threads", "tables for each chunk", threads}});
  ladder.timed = {{i32, {1 << 25}}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::histogram
