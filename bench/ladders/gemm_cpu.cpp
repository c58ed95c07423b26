#include "bench/ladders/gemm_cpu.h"

#include <cotangent/cotangent.h>

#include "bench/ladders/gemm.h"
#include "bench/ladders/ladder.h"

// gemm on the CPU: C[m, n] = A[m, k] B[k, n] of f32, all contiguous. 2 m n k operations on m k + k n + m n numbers: each
// number is used a thousand times, so all is a question of where it lies when it is used.

namespace ct::ladder::gemm {
namespace {

// Rung "loops". c[i, j] is the product of a row of A and a column of B. The column is the trouble: its numbers are n apart,
// so each is in a cache line of its own, of which the other fifteen are thrown away before they are wanted; and the sum
// is one chain, in which an addition waits for the one before.
void loops(const Call& call) {
  const int64_t m = call.size(0), n = call.size(1), k = call.size(2);
  const float *a = call.input<float>(0), *b = call.input<float>(1);
  float* c = call.output<float>(0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      c[i * n + j] = sum;
    }
}

// Adds columns [from, to) of a block of depth `depth` to row i of C.
void add_row(float* __restrict c, const float* a, const float* b, int64_t n, int64_t depth, int64_t from,
             int64_t to) {
  for (int64_t p = 0; p < depth; ++p)
    for (int64_t j = from; j < to; ++j) c[j] += a[p] * b[p * n + j];
}

// Rung "order". The same three loops with the last two exchanged: a number of A times a row of B is added to a row of C.
// Now the innermost loop walks along rows, of B and of C, a cache line is used whole, and its steps are independent: the
// compiler makes vectors of them. But all of B passes by for each row of C.
void order(const Call& call) {
  const int64_t m = call.size(0), n = call.size(1), k = call.size(2);
  float* c = call.output<float>(0);
  std::fill(c, c + m * n, 0.f);
  for (int64_t i = 0; i < m; ++i)
    add_row(c + i * n, call.input<float>(0) + i * k, call.input<float>(1), n, k, 0, n);
}

// Rung "blocks". B is taken in blocks, 64 rows of 512 numbers, 128 KiB, that stay in the second-level cache while all rows
// of C pass by: B comes from memory once, and C once for each 64 steps of k.
void blocks(const Call& call) {
  constexpr int64_t depth = 64, width = 512;
  const int64_t m = call.size(0), n = call.size(1), k = call.size(2);
  const float *a = call.input<float>(0), *b = call.input<float>(1);
  float* c = call.output<float>(0);
  std::fill(c, c + m * n, 0.f);
  for (int64_t j = 0; j < n; j += width)
    for (int64_t p = 0; p < k; p += depth)
      for (int64_t i = 0; i < m; ++i)
        add_row(c + i * n, a + i * k + p, b + p * n, n, std::min(depth, k - p), j, std::min(n, j + width));
}

// Rung "registers": gemm_cpu.h says why. Rows and columns left over at the edges are computed as in "order".
void registers(const Call& call) {
  const int64_t m = call.size(0), n = call.size(1), k = call.size(2);
  const float *a = call.input<float>(0), *b = call.input<float>(1);
  float* c = call.output<float>(0);
  const int64_t whole_m = m / kRows * kRows, whole_n = n / kCols * kCols;
  for (int64_t j = 0; j < whole_n; j += kCols)
    for (int64_t i = 0; i < whole_m; i += kRows)
      tile(k, a + i * k, k, 1, b + j, n, c + i * n + j, n, true, [](V sum, int64_t) { return sum; });
  for (int64_t i = 0; i < m; ++i) {
    const int64_t from = i < whole_m ? whole_n : 0;
    std::fill(c + i * n + from, c + (i + 1) * n, 0.f);
    add_row(c + i * n, a + i * k, b, n, k, from, n);
  }
}

template <bool threads>
void packed(const Call& call) {
  packed_product(call.size(0), call.size(1), call.size(2), call.input<float>(0), call.input<float>(1),
                 call.output<float>(0), threads, [](V sum, int64_t) { return sum; });
}

const bool kAdded = ct::ladder::add({
    .name = "gemm",
    .what = kWhat,
    .device = DeviceType::cpu,
    .unit = Unit::flops,
    .small = {{f32, {1, 1, 1}}, {f32, {37, 53, 29}}, {f32, {70, 131, 300}}, {f32, {48, 64, 257}}},
    .timed = {{f32, {1024, 1024, 1024}}},
    .work = work,
    .inputs = inputs,
    .plain = plain,
    .library = library,
    .library_name = "ct::matmul",
    .rungs = {{"loops", "the definition: a row times a column", loops},
              {"order", "the innermost loop walks along rows, and is made of vectors", order},
              {"blocks", "a block of B stays in the cache while all rows of C pass", blocks},
              {"registers", "a tile of C stays in registers for all of k", registers},
              {"packing", "blocks are copied into the order in which tiles read them", packed<false>},
              {"threads", "each thread has rows of its own", packed<true>}},
});

}  // namespace
}  // namespace ct::ladder::gemm
