#pragma once

#include <cstdint>
#include <vector>

namespace ct::data::detail {

/// Whether allocate_batch() of this thread gives pinned memory.
bool& pinned_batches();

/// 0, ..., count - 1 in an order that is a function of seed and epoch. Throws OutOfMemoryError.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::int64_t epoch);

}  // namespace ct::data::detail
