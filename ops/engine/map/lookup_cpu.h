#pragma once

#include <cstdint>
#include <cstring>

#include <cotangent/core/simd/stream.h>

// Of 16 bits there are 65536 numbers, and a function of one of them is a table of as many results. For what costs more than
// a load, an exponential or more, that is the fastest way, and as exact: the table is made by the formula itself.

namespace ct::elementwise {

/// How many results a table has, and how many elements are worth making one.
inline constexpr std::int64_t kTableSize = 1 << 16, kTableWorth = 8 * kTableSize;

/// to[i] = table[from[i]] of n elements; `to` may be `from`.
inline void look_up(const void* table, const void* from, std::int64_t n, void* to) {
  using Bits [[gnu::may_alias]] = std::uint16_t;
  using Eight = simd::detail::Raw<std::uint16_t, 16>;
  const auto* t = static_cast<const Bits*>(table);
  const auto* x = static_cast<const Bits*>(from);
  auto* y = static_cast<Bits*>(to);
  const auto bits = [](std::uint64_t four, int i) { return four >> 16 * i & 0xffff; };
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    std::uint64_t a, b;
    std::memcpy(&a, x + i, sizeof a);
    std::memcpy(&b, x + i + 4, sizeof b);
    const Eight eight = {t[bits(a, 0)], t[bits(a, 1)], t[bits(a, 2)], t[bits(a, 3)],
                         t[bits(b, 0)], t[bits(b, 1)], t[bits(b, 2)], t[bits(b, 3)]};
    std::memcpy(y + i, &eight, sizeof eight);
  }
  for (; i < n; ++i) y[i] = t[x[i]];
}

}  // namespace ct::elementwise
