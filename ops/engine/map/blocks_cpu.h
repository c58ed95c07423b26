#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cotangent/ops/engine/map/map.h>
#include <cotangent/ops/engine/map/runs_cpu.h>

// Operands of a call in memory, and the way of their elements into blocks in the L1 cache and back, for the drivers (map_cpu.cpp,
// engine/map/chain_cpu.cpp). A layout is a LayoutOf any number of operands.

namespace ct::map {

struct alignas(64) Filled {
  std::byte bytes[simd::kVectorBytes];
};

struct Operand {
  char* data;
  std::size_t size;     // bytes of one element
  bool as_is;           // stored in the type the tile reads or writes
  bool streams;         // a result that goes past the caches
  bool linear;          // no gaps
  bool scalar;          // one number
  std::int64_t period;  // the elements repeat after so many, themselves without gaps; 0 if they do not
  Run run;              // read for inputs, write for outputs
  const std::int64_t* strides;
};

// After how many elements operand k starts again, read without gaps until then (a row that is broadcast); 0
// if that is not how it lies.
template <class Layout>
std::int64_t period_of(const Layout& layout, int k) {
  std::int64_t period = 1;
  int d = layout.rank - 1;
  for (; d >= 0 && layout.strides[k][d] == period; --d) period *= layout.sizes[d];
  for (; d >= 0; --d)
    if (layout.strides[k][d] != 0) return 0;
  return period;
}

// Where row-major element `linear` lies, as an index per axis and an offset for one operand.
struct Cursor {
  std::int64_t index[kMaxRank];
  std::int64_t offset = 0;

  template <class Layout>
  Cursor(const Layout& layout, const std::int64_t* strides, std::int64_t linear) {
    for (int d = layout.rank - 1; d >= 0; --d) {
      index[d] = linear % layout.sizes[d];
      linear /= layout.sizes[d];
      offset += index[d] * strides[d];
    }
  }
  template <class Layout>
  void next_row(const Layout& layout, const std::int64_t* strides) {
    int d = layout.rank - 1;
    offset -= index[d] * strides[d];
    index[d] = 0;
    while (--d >= 0) {
      offset += strides[d];
      if (++index[d] < layout.sizes[d]) return;
      offset -= index[d] * strides[d];
      index[d] = 0;
    }
  }
};

// Moves elements [start, start + n) between an operand and a block.
template <class Layout>
void move_block(const Layout& layout, const Operand& operand, void* block, std::size_t compute_size,
                std::int64_t start, std::int64_t n) {
  char* at = static_cast<char*>(block);
  const auto move = [&](std::int64_t offset, std::int64_t stride, std::int64_t count) {
    operand.run(at, operand.data + offset * static_cast<std::int64_t>(operand.size), stride, count);
    at += static_cast<std::size_t>(count) * compute_size;
  };
  if (operand.linear) return move(start, 1, n);
  const int inner = layout.rank - 1;
  Cursor cursor(layout, operand.strides, start);
  while (n > 0) {
    const std::int64_t count = std::min(n, layout.sizes[inner] - cursor.index[inner]);
    move(cursor.offset, operand.strides[inner], count);
    cursor.index[inner] += count;
    cursor.offset += count * operand.strides[inner];
    n -= count;
    if (n > 0) cursor.next_row(layout, operand.strides);
  }
}

// Fills a vector with the number that run(…) reads.
inline void fill(Filled& filled, Run run, void* number, std::size_t compute_size) {
  run(filled.bytes, number, 0, simd::kVectorBytes / static_cast<std::int64_t>(compute_size));
}

}  // namespace ct::map
