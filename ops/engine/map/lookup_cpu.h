#pragma once

#include <cstdint>
#include <cstring>

// A function of one 16-bit number is a table of 65536 results. For functions that cost more than
// a load, an exponential or more, that is the fastest way, and as exact: the table is made by the formula itself.

namespace ct::map {

/// How many results a table has, and how many elements are worth making one.
inline constexpr std::int64_t kTableSize = 1 << 16, kTableWorth = 8 * kTableSize;

/// to[i] = table[from[i]] of n elements; `to` may be `from`. Four results make a word: they would go into a vector's lanes one
/// by one, and Intel has one port for that.
inline void look_up(const void* table, const void* from, std::int64_t n, void* to) {
  using Bits [[gnu::may_alias]] = std::uint16_t;
  const auto* t = static_cast<const Bits*>(table);
  const auto* x = static_cast<const Bits*>(from);
  auto* y = static_cast<Bits*>(to);
  const auto result = [&](std::int64_t i) { return std::uint64_t{t[x[i]]}; };
  std::int64_t i = 0;
#pragma GCC unroll 2
  for (; i + 4 <= n; i += 4) {
    const std::uint64_t four = result(i + 3) << 48 | result(i + 2) << 32 | result(i + 1) << 16 | result(i);
    std::memcpy(y + i, &four, sizeof four);
  }
  for (; i < n; ++i) y[i] = t[x[i]];
}

}  // namespace ct::map
