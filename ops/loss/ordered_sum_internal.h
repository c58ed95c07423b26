#pragma once

#include <cstdint>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/memory/pool.h>

namespace ct::loss {

/// Sums body(begin, end) over the chunks of [0, n), in their order. Body returns a number, or anything with
/// += that starts as zero.
template <class Body>
auto ordered_sum(std::int64_t n, std::int64_t grain, Body&& body) {
  using Sum = decltype(body(n, n));
  const std::int64_t chunks = chunk_count(n, grain);
  if (chunks <= 1) return n > 0 ? body(std::int64_t{0}, n) : Sum{};
  std::vector<Sum, PoolAllocator<Sum>> partial(static_cast<std::size_t>(chunks));
  parallel_chunks(n, grain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    partial[static_cast<std::size_t>(chunk)] = body(begin, end);
  });
  Sum sum{};
  for (const Sum& p : partial) sum += p;
  return sum;
}

}  // namespace ct::loss
