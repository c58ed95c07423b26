#pragma once

#include <cotangent/core/base/export.h>
#include <cotangent/core/memory/allocator.h>

namespace ct::detail {

/// Whether a block of a memory pool is handed out now, by its address. Whoever records a step asks what outlives it: a handle
/// of its own would be counted where the tape asks whether it may write over a value.
CT_API bool is_taken(Device device, MemoryPoolId pool, const void* block);

}  // namespace ct::detail
