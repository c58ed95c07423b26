#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/exp.h>
#include <cotangent/core/simd/vector.h>
#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/softmax/softmax.h>

#include <algorithm>
#include <cmath>

#include "bench/ladders/ladder.h"

// y = softmax(x) along rows on the CPU. A row of 1024 numbers stays in the first-level cache, so that it is wanted three
// times costs nothing; here it is the exponential that counts.

namespace ct::ladder::softmax {
namespace {

using V = simd::Vector<float>;

// Calls row(x, y, n) for the rows from `begin` to `end`.
template <void (*row)(const float*, float*, std::int64_t)>
void rows(const Call& c, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = c.size(1);
  for (std::int64_t i = begin; i < end; ++i) row(c.input<float>(0) + i * n, c.output<float>(0) + i * n, n);
}
template <void (*row)(const float*, float*, std::int64_t)>
void all_rows(const Call& c) {
  rows<row>(c, 0, c.size(0));
}

// Loops: the definition, with the C library's exponential, twice for each number: once for the sum, once for the result.
void twice(const float* x, float* y, std::int64_t n) {
  float m = x[0], sum = 0;
  for (std::int64_t i = 1; i < n; ++i) m = std::max(m, x[i]);
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - m);
  for (std::int64_t i = 0; i < n; ++i) y[i] = std::exp(x[i] - m) / sum;
}

// Stored: the exponentials are left in y and scaled there: half as many. One division a row instead of one a number.
void stored(const float* x, float* y, std::int64_t n) {
  float m = x[0], sum = 0;
  for (std::int64_t i = 1; i < n; ++i) m = std::max(m, x[i]);
  for (std::int64_t i = 0; i < n; ++i) sum += y[i] = std::exp(x[i] - m);
  for (std::int64_t i = 0; i < n; ++i) y[i] *= 1 / sum;
}

// Vectors: the exponential as a polynomial on whole registers (core/simd/exp.h), and a maximum and a sum in each lane. The
// last, short vector is filled up with -inf, which adds nothing.
void vectors(const float* x, float* y, std::int64_t n) {
  const float none = -INFINITY;
  const auto larger = [](V a, V b) { return where(a < b, b, a); };
  const auto each = [&](const auto& f) {
    for (std::int64_t i = 0; i < n; i += V::kSize) f(i, V::first(std::min<std::int64_t>(V::kSize, n - i)));
  };
  V m = none, sum = 0;
  each([&](std::int64_t i, V::First count) { m = larger(m, V::load(x + i, count, none)); });
  const V top = m.across(larger);
  each([&](std::int64_t i, V::First count) {
    const V e = simd::exp_nonpositive(V::load(x + i, count, none) - top);
    sum += e;
    e.store(y + i, count);
  });
  const V scale = 1 / sum.across([](V a, V b) { return a + b; });
  each([&](std::int64_t i, V::First count) { (V::load(y + i, count) * scale).store(y + i, count); });
}

// Threads: rows do not know of each other.
void threads(const Call& c) {
  parallel_for(c.size(0), 1 + (1 << 14) / c.size(1),
               [&](std::int64_t begin, std::int64_t end) { rows<vectors>(c, begin, end); });
}

Tensors softmax_of_rows(const Tensors& in) { return {ct::softmax(in[0], -1)}; }

const bool kAdded = add({
    .name = "softmax",
    .what = "y = softmax(x) along rows; rows x their length",
    .device = DeviceType::cpu,
    .unit = Unit::bytes,
    .small = {{f32, {37, 1000}}, {f32, {3, 5}}},
    .timed = {{f32, {16'384, 1024}}},
    .work = [](const Case& c) { return 8.0 * static_cast<double>(c.size[0] * c.size[1]); },
    .inputs = [](const Case& c) -> Tensors {
      return {randn({c.size[0], c.size[1]})};
    },
    .plain = softmax_of_rows,
    .library = softmax_of_rows,
    .library_name = "ct::softmax",
    .rungs = {{"loops", "the definition: two exponentials for each number", all_rows<twice>},
              {"stored", "the exponentials are stored: one", all_rows<stored>},
              {"vectors", "the exponential on whole registers", all_rows<vectors>},
              {"threads", "rows do not know of each other", threads}},
});

}  // namespace
}  // namespace ct::ladder::softmax
