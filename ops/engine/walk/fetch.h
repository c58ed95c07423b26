#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cotangent/core/device/kernel_tables.h>

// Copies whose sources are known only when they run: a captured step's arguments (nn/capture/program.cpp).

namespace ct {

/// `bytes` bytes to `to` from the address that lies in `source`, in memory of the device; nothing where that is `to` itself.
struct Fetch {
  void* to = nullptr;
  std::int64_t bytes = 0;
  const std::uint64_t* source = nullptr;
};
inline constexpr std::size_t kMostFetched = 8;

/// Makes up to kMostFetched copies, on a GPU in one launch on the current stream. No source may overlap what is written.
void fetch_cpu(std::span<const Fetch> list);
void fetch_cuda(std::span<const Fetch> list);
struct FetchFunctions {
  decltype(&fetch_cpu) fetch;
};
CT_FUNCTION_TABLES(FetchFunctions, fetching)

}  // namespace ct
