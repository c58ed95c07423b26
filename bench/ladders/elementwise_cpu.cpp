#include <cotangent/core/simd/stream.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/elementwise/binary.h>

#include "bench/ladders/rows_cpu.h"

// y = a + b on the CPU: one addition for 12 bytes. The compiler makes vectors of the loop by itself; what is left to gain is
// how the result gets to memory, and who fetches.

namespace ct::ladder::elementwise {
namespace {

// Loops: the definition, of which the compiler makes vectors. Before a line of y is written it is read: a plain store
// changes a part of a line, so that the processor fetches the whole first. 16 bytes move for the 12 of the formula.
void loops(const Call& c, std::int64_t begin, std::int64_t end) {
  const float *a = c.input<float>(0), *b = c.input<float>(1);
  float* y = c.output<float>(0);
  for (std::int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
}

// Streams: vectors are stored past the caches (core/simd/stream.h), whole lines at once, which are not read before. It pays
// where the result is larger than the caches, and only there: who reads y next finds it in memory.
void streams(const Call& c, std::int64_t begin, std::int64_t end) {
  const float *a = c.input<float>(0), *b = c.input<float>(1);
  float* y = c.output<float>(0);
  std::int64_t i = begin;
  for (; i + V::kSize <= end; i += V::kSize) simd::stream(V::load(a + i) + V::load(b + i), y + i);
  for (; i < end; ++i) y[i] = a[i] + b[i];
}

// Threads: more lines of the caches on their way. Chunks of 2^16 begin where a vector does.
void threads(const Call& c) {
  parallel_for(c.size(0), 1 << 16, [&](std::int64_t begin, std::int64_t end) { streams(c, begin, end); });
}

Tensors sum_of_both(const Tensors& in) { return {ct::add(in[0], in[1])}; }

const bool kAdded = add({
    .name = "elementwise",
    .what = "y = a + b, n numbers",
    .device = DeviceType::cpu,
    .unit = Unit::bytes,
    .small = {{f32, {100'003}}, {f32, {1}}},
    .timed = {{f32, {1 << 25}}},
    .work = [](const Case& c) { return 12.0 * static_cast<double>(c.size[0]); },
    .inputs = [](const Case& c) -> Tensors {
      return {randn({c.size[0]}), randn({c.size[0]})};
    },
    .plain = sum_of_both,
    .library = sum_of_both,
    .library_name = "ct::add",
    .rungs = {{"loops", "the definition; the compiler makes vectors of it", one_thread<loops>},
              {"streams", "stores past the caches: lines of y are not read before", one_thread<streams>},
              {"threads", "more lines under way", threads}},
});

}  // namespace
}  // namespace ct::ladder::elementwise
