#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/vector.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/reduce/reduce.h>

#include <algorithm>

#include "bench/ladders/ladder.h"

// The sum of n numbers on the CPU. One addition for 4 bytes: the memory is the limit, once the additions do not wait for
// each other.

namespace ct::ladder::reduce {
namespace {

using V = simd::Vector<float>;

// Loops: the definition. Each addition waits for the one before, three to four cycles, and the compiler may not change that:
// another order of additions is another result. It is also the least exact order: the sum is soon so much larger than the
// addends that a good part of each is rounded away (a sum of 2^25 numbers about 1/2 is off in its fourth digit; the verified
// sizes are small enough to pass).
void loops(const Call& c) {
  float sum = 0;
  for (std::int64_t i = 0; i < c.size(0); ++i) sum += c.input<float>(0)[i];
  *c.output<float>(0) = sum;
}

// Halves: the sum of a range is that of its halves, down to 64 numbers. Still one addition after the other, and calls
// beside, but every number passes some 20 additions instead of up to n: the error grows with log n. Order for the sake of
// digits; that it is no slower is because the ends of the ranges do not wait for each other.
float halved(const float* x, std::int64_t n) {
  if (n > 64) return halved(x, n / 2) + halved(x + n / 2, n - n / 2);
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}
void halves(const Call& c) { *c.output<float>(0) = halved(c.input<float>(0), c.size(0)); }

// Vectors: eight registers of sums, each lane of each a chain of its own, so that an addition of a whole register can begin
// in every cycle. They are joined at the end in one order.
float added(const float* x, std::int64_t n) {
  constexpr int kSums = 8;
  V sum[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums * V::kSize <= n; i += kSums * V::kSize)
#pragma GCC unroll 8
    for (int s = 0; s < kSums; ++s) sum[s] += V::load(x + i + s * V::kSize);
  for (; i < n; i += V::kSize) sum[0] += V::load(x + i, V::first(std::min<std::int64_t>(V::kSize, n - i)));
  for (int s = 1; s < kSums; ++s) sum[0] += sum[s];
  return sum[0].across([](V a, V b) { return a + b; });
}

// Blocks of 64 KiB, whose sums are added in f64: digits as with halves, at the speed of vectors.
constexpr std::int64_t kBlock = 1 << 14;
void blocks(const Call& c) {
  double sum = 0;
  for (std::int64_t i = 0; i < c.size(0); i += kBlock)
    sum += added(c.input<float>(0) + i, std::min(kBlock, c.size(0) - i));
  *c.output<float>(0) = static_cast<float>(sum);
}

// Threads: a chunk's sum for each, joined in the order of the chunks. The chunks are cut by n, not by the number of threads:
// the same bits on one core as on sixteen. One core alone does not have enough lines of the cache on their way to keep the
// memory busy.
void threads(const Call& c) {
  std::vector<double> sums(static_cast<std::size_t>(chunk_count(c.size(0), 16 * kBlock)));
  parallel_chunks(c.size(0), 16 * kBlock, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kBlock)
      sums[static_cast<std::size_t>(chunk)] += added(c.input<float>(0) + i, std::min(kBlock, end - i));
  });
  double sum = 0;
  for (const double s : sums) sum += s;
  *c.output<float>(0) = static_cast<float>(sum);
}

Tensors sum_of_all(const Tensors& in) { return {sum(in[0])}; }

const bool kAdded = add({
    .name = "reduce",
    .what = "y = sum of n numbers",
    .device = DeviceType::cpu,
    .unit = Unit::bytes,
    .small = {{f32, {1}}, {f32, {300'007}}},
    .timed = {{f32, {1 << 24}}},
    .work = [](const Case& c) { return 4.0 * static_cast<double>(c.size[0]); },
    .inputs = [](const Case& c) -> Tensors { return {rand({c.size[0]})}; },
    .plain = sum_of_all,
    .library = sum_of_all,
    .library_name = "ct::sum",
    .rungs = {{"loops", "the definition: one chain of additions, the least exact order", loops},
              {"halves", "a sum of sums: the error grows with log n", halves},
              {"blocks", "vectors of sums that do not wait for one another, their sums in f64", blocks},
              {"threads", "more lines of the cache on their way; the same bits for any number", threads}},
    .slack = 100,  // one chain loses that much on the measured size
});

}  // namespace
}  // namespace ct::ladder::reduce
