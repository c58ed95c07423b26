#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/copy/copy.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/engine/walk/transpose_cpu.h>
#include <cotangent/ops/view/view.h>

#include <algorithm>

#include "bench/ladders/ladder.h"

// y = x^T on the CPU. Memory comes in lines of 16 numbers and in pages of 1024; one of both sides is walked across them.

namespace ct::ladder::transpose {
namespace {

// Calls f(i, j, rows, columns) for the tiles of x from row `begin` to `end`; those at the edges are smaller.
template <int kTile, class F>
void tiles(const Call& c, std::int64_t begin, std::int64_t end, const F& f) {
  for (std::int64_t i = begin; i < end; i += kTile)
    for (std::int64_t j = 0; j < c.size(1); j += kTile)
      f(i, j, std::min<std::int64_t>(kTile, end - i), std::min<std::int64_t>(kTile, c.size(1) - j));
}
// A tile, one number after the other.
void turn(const Call& c, std::int64_t top, std::int64_t left, std::int64_t rows, std::int64_t columns) {
  const float* x = c.input<float>(0) + top * c.size(1) + left;
  float* y = c.output<float>(0) + left * c.size(0) + top;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) y[j * c.size(0) + i] = x[i * c.size(1) + j];
}

// Loops: along the rows of y, as the formula is read. Each number is read from another line of x, and another page; the
// thread waits for it, and the line is thrown out before its next number is wanted: 64 bytes read for 4.
void loops(const Call& c) {
  for (std::int64_t j = 0; j < c.size(1); ++j)
    for (std::int64_t i = 0; i < c.size(0); ++i)
      c.output<float>(0)[j * c.size(0) + i] = c.input<float>(0)[i * c.size(1) + j];
}

// Order: along the rows of x. Now the writes are across lines, and no thread waits for a write: it lies in a buffer until
// its line has come.
void order(const Call& c) { turn(c, 0, 0, c.size(0), c.size(1)); }

// Blocks: tiles of 64 x 64, four lines to a row, of both sides together as much as a first-level cache holds. A line is used
// whole before it is thrown out, and the lines beside it are fetched ahead.
constexpr int kTile = 64;
void blocks(const Call& c) {
  tiles<kTile>(c, 0, c.size(0), [&](auto... tile) { turn(c, tile...); });
}

// Vectors: squares of 8 x 8 are turned in eight registers: eight loads, 24 interleavings, eight stores in place of 64 loads
// and stores (transpose_square in ops/engine/walk/transpose_cpu.h).
constexpr int kSquare = ct::walk::kLanes<float>;
void squares(const Call& c, std::int64_t begin, std::int64_t end) {
  tiles<kTile>(c, begin, end,
               [&](std::int64_t top, std::int64_t left, std::int64_t rows, std::int64_t columns) {
                 if (rows % kSquare != 0 || columns % kSquare != 0) return turn(c, top, left, rows, columns);
                 for (std::int64_t j = left; j < left + columns; j += kSquare)
                   for (std::int64_t i = top; i < top + rows; i += kSquare)
                     ct::walk::transpose_square(c.output<float>(0) + j * c.size(0) + i, c.size(0),
                                                c.input<float>(0) + i * c.size(1) + j, c.size(1));
               });
}
void vectors(const Call& c) { squares(c, 0, c.size(0)); }

// Threads: each takes rows of tiles.
void threads(const Call& c) {
  parallel_for(c.size(0), kTile, [&](std::int64_t begin, std::int64_t end) { squares(c, begin, end); });
}

Tensors transposed(const Tensors& in) { return {in[0].t().contiguous()}; }

const bool kAdded = add({
    .name = "transpose",
    .what = "y = x^T, rows x columns",
    .device = DeviceType::cpu,
    .unit = Unit::bytes,
    .small = {{f32, {100, 267}}, {f32, {3, 5}}},
    .timed = {{f32, {4000, 6000}}},
    .work = [](const Case& c) { return 8.0 * static_cast<double>(c.size[0] * c.size[1]); },
    .inputs = [](const Case& c) -> Tensors {
      return {randn({c.size[0], c.size[1]})};
    },
    .plain = transposed,
    .library = transposed,
    .library_name = "x.t().contiguous()",
    .rungs = {{"loops", "along the rows of y: each number is read from another line", loops},
              {"order", "along the rows of x: nobody waits for a write", order},
              {"blocks", "tiles that fit in a cache: each line is used whole", blocks},
              {"vectors", "squares are turned in registers", vectors},
              {"threads", "each takes rows of tiles", threads}},
});

}  // namespace
}  // namespace ct::ladder::transpose
