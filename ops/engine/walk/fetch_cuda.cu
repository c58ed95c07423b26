#include <algorithm>

#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/walk/fetch.h>

namespace ct {
namespace {

constexpr int kFetchThreads = 256;

struct FetchTable {
  Fetch rows[kMostFetched];
  int first[kMostFetched + 1];  // blocks ahead of each row
  std::int64_t chunk;           // bytes of a block
};

// Copies units of one size, which both addresses are multiples of.
template <class Unit>
__device__ __forceinline__ std::int64_t copy_units(char* to, const char* from, std::int64_t begin,
                                                   std::int64_t end) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Unit));
  const std::int64_t whole = begin + (end - begin) / kSize * kSize;
  for (std::int64_t at = begin + static_cast<std::int64_t>(threadIdx.x) * kSize; at < whole;
       at += kFetchThreads * kSize)
    *reinterpret_cast<Unit*>(to + at) = *reinterpret_cast<const Unit*>(from + at);
  return whole;
}

__global__ void __launch_bounds__(kFetchThreads) fetch_kernel(const __grid_constant__ FetchTable table) {
  gpu::wait_for_previous();
  int row = 0;
  while (static_cast<int>(blockIdx.x) >= table.first[row + 1]) ++row;
  const Fetch& f = table.rows[row];
  char* const to = static_cast<char*>(f.to);
  const char* const from = reinterpret_cast<const char*>(*f.source);
  if (from == to) return;
  std::int64_t begin = (static_cast<int>(blockIdx.x) - table.first[row]) * table.chunk;
  const std::int64_t end = begin + table.chunk < f.bytes ? begin + table.chunk : f.bytes;
  const auto both = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (both % 16 == 0) begin = copy_units<uint4>(to, from, begin, end);
  if (both % 4 == 0) begin = copy_units<unsigned>(to, from, begin, end);
  copy_units<char>(to, from, begin, end);
}

}  // namespace

void fetch_cuda(std::span<const Fetch> list) {
  FetchTable table = {};
  std::int64_t total = 0;
  for (const Fetch& f : list) total += f.bytes;
  constexpr std::int64_t kUnit = 16 * kFetchThreads;
  const std::int64_t wanted = total / (std::int64_t{gpu::multiprocessors()} * 8);
  table.chunk = std::clamp(gpu::ceil_div(wanted, kUnit), std::int64_t{1}, std::int64_t{16}) * kUnit;
  for (std::size_t k = 0; k < kMostFetched; ++k) {
    if (k < list.size()) table.rows[k] = list[k];
    table.first[k + 1] = table.first[k] + static_cast<int>(gpu::ceil_div(table.rows[k].bytes, table.chunk));
  }
  gpu::launch_waiting("capture", fetch_kernel, dim3(static_cast<unsigned>(table.first[kMostFetched])),
                      dim3(kFetchThreads), 0, table);
}

}  // namespace ct

CT_FUNCTIONS(cuda, FetchFunctions, fetching, fetch_cuda)
