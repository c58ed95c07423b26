#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/update/many_internal.h>

// CUDA. The table of tensors travels as a kernel parameter, so that one launch
// serves many tensors and nothing is copied to the GPU beforehand. A block takes one chunk of one tensor and
// finds out which by bisection.

namespace ct::update::many {

inline constexpr int kThreads = 256;

/// Up to kCapacity rows of a kernel. `Row` has a field `count`.
template <class RowT, int kCapacity>
struct Table {
  using Row = RowT;
  static constexpr int capacity = kCapacity;
  Row rows[kCapacity];
  int first[kCapacity + 1];  // the number of chunks before each row
  int size;
  int chunk;  // elements; a multiple of 4 * kThreads, which keeps vectors aligned
};

/// The part of a row that a block works on.
struct Piece {
  int row;
  std::int64_t begin, end;
};
template <class T>
__device__ __forceinline__ Piece piece_of(const T& table, int block) {
  int low = 0, high = table.size;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.first[middle] <= block ? low : high) = middle;
  }
  const std::int64_t begin = static_cast<std::int64_t>(block - table.first[low]) * table.chunk;
  const std::int64_t count = table.rows[low].count;
  return {low, begin, begin + table.chunk < count ? begin + table.chunk : count};
}

/// Elements per access: 16 bytes of f32, and as many elements of the others as the moments, f32, have then;
/// f64 two.
template <class T>
inline constexpr int kWidth = sizeof(T) == 8 ? 2 : 4;

__device__ __forceinline__ bool aligned_to(const void* p, int bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

/// Chunks so that small models fill the GPU and large ones have blocks enough to even out at the end, but
/// not so many that finding the piece shows.
inline int chunk_size(std::int64_t total) {
  constexpr std::int64_t kUnit = 4 * kThreads;
  const std::int64_t wanted = total / (std::int64_t{gpu::multiprocessors()} * 32);
  return static_cast<int>(std::clamp((wanted + kUnit - 1) / kUnit * kUnit, kUnit, 16 * kUnit));
}

inline std::int64_t element_total(std::span<const Entry> entries) {
  std::int64_t total = 0;
  for (const Entry& e : entries) total += e.count;
  return total;
}

/// True for the last of `blocks` that comes here: what the others have read it may change, what they have written it may
/// read. `done` is 0 between.
__device__ __forceinline__ bool is_last(unsigned* done, unsigned blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(done, blocks - 1) == blocks - 1;
    if (last) __threadfence();
  }
  __syncthreads();
  return last;
}

/// Fills tables of type T with make_row(entry) and calls run(table, blocks) for each. With kEmpty entries without elements
/// have a row, too, and a table of such has one block.
template <class T, bool kEmpty = false, class MakeRow, class Run>
void for_tables(std::span<const Entry> entries, int chunk, MakeRow make_row, Run run) {
  T table;
  table.size = 0;
  table.first[0] = 0;
  table.chunk = chunk;
  for (const Entry& e : entries) {
    if (e.count == 0 && !kEmpty) continue;
    table.rows[table.size] = make_row(e);
    table.first[table.size + 1] = table.first[table.size] + static_cast<int>((e.count + chunk - 1) / chunk);
    if (++table.size < T::capacity) continue;
    run(table, std::max(table.first[table.size], 1));
    table.size = 0;
  }
  if (table.size > 0) run(table, std::max(table.first[table.size], 1));
}

}  // namespace ct::update::many
