#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/pool.h>

// The radix sort of the CPU.

namespace ct::scatter_impl {

/// A key of 32 or 64 bits and where it comes from; no two of a list have one place.
template <class K>
struct Pair {
  K key;
  std::uint32_t place;
  friend bool operator<(const Pair& a, const Pair& b) {
    return a.key != b.key ? a.key < b.key : a.place < b.place;
  }
};
template <class K>
using Pairs = std::vector<Pair<K>, PoolAllocator<Pair<K>>>;

/// Orders pairs by their keys, those of equal keys by their places, in which they are given. Long lists go digit by digit
/// from the last to the first: every chunk counts its digits, and writes behind what the chunks before it write.
template <class K>
void sort_pairs(Pairs<K>& pairs) {
  constexpr std::int64_t kGrain = 1 << 15;
  const auto n = static_cast<std::int64_t>(pairs.size());
  if (n < 1024) return std::sort(pairs.begin(), pairs.end());
  Pairs<K> other(pairs.size());
  using Counts = std::array<std::uint32_t, 256>;
  std::vector<Counts> starts(static_cast<std::size_t>(chunk_count(n, kGrain)));
  for (int shift = 0; shift < 8 * static_cast<int>(sizeof(K)); shift += 8) {
    const auto digit = [&](std::int64_t i) {
      return static_cast<std::size_t>(pairs[static_cast<std::size_t>(i)].key >> shift & 255);
    };
    parallel_chunks(n, kGrain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
      Counts counts{};
      for (std::int64_t i = begin; i < end; ++i) ++counts[digit(i)];
      starts[static_cast<std::size_t>(chunk)] = counts;
    });
    std::uint32_t sum = 0;
    bool one_digit = false;  // of all keys: there is nothing to do
    for (std::size_t d = 0; d < 256; ++d) {
      const std::uint32_t before = sum;
      for (Counts& counts : starts) sum += std::exchange(counts[d], sum);
      one_digit |= sum - before == static_cast<std::uint32_t>(n);
    }
    if (one_digit) continue;
    parallel_chunks(n, kGrain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
      Counts& to = starts[static_cast<std::size_t>(chunk)];
      for (std::int64_t i = begin; i < end; ++i) other[to[digit(i)]++] = pairs[static_cast<std::size_t>(i)];
    });
    pairs.swap(other);
  }
}

}  // namespace ct::scatter_impl
