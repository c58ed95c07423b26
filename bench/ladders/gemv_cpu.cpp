#include "bench/ladders/gemv.h"

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/vector.h>

#include <algorithm>

// Matrix times vector on the CPU: each number of A is used once, for two operations. So what counts is how fast A comes
// from memory, and the arithmetic must only not be in the way.

namespace ct::ladder::gemv {
namespace {

using std::int64_t;
using V = simd::Vector<float>;

// Rung "loops". The definition. A sum is one chain, in which each addition waits four cycles for the one before: a number
// of A every four cycles, 4 GB/s, whatever the memory could give. The compiler may not do better: another order of
// additions would be another result.
void loops(const Call& call) {
  const int64_t m = call.size(0), k = call.size(1);
  for (int64_t i = 0; i < m; ++i) {
    float sum = 0;
    for (int64_t p = 0; p < k; ++p) sum += call.input<float>(0)[i * k + p] * call.input<float>(1)[p];
    call.output<float>(0)[i] = sum;
  }
}

// A row in four vectors of sums at a time, and those added up in a fixed order at its end.
float dot(const float* a, const float* x, int64_t k) {
  constexpr int kSums = 4;
  V sum[kSums] = {0.f, 0.f, 0.f, 0.f};
  int64_t p = 0;
  for (; p + kSums * V::kSize <= k; p += kSums * V::kSize)
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s)
      sum[s] = fma(V::load(a + p + s * V::kSize), V::load(x + p + s * V::kSize), sum[s]);
  for (; p < k; p += V::kSize) {
    const auto first = V::first(std::min<int64_t>(V::kSize, k - p));
    sum[0] = fma(V::load(a + p, first), V::load(x + p, first), sum[0]);
  }
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])).across([](V a, V b) { return a + b; });
}

// Rung "vectors". The order is chosen here: as many sums as four vectors have lanes, none of which waits for another.
void vectors(const Call& call) {
  const int64_t m = call.size(0), k = call.size(1);
  for (int64_t i = 0; i < m; ++i)
    call.output<float>(0)[i] = dot(call.input<float>(0) + i * k, call.input<float>(1), k);
}

// Rung "threads". One core has only so many lines of the cache under way at a time, fewer than memory could send. All of
// them together have more.
void threads(const Call& call) {
  const int64_t m = call.size(0), k = call.size(1);
  parallel_for(m, 1 + (1 << 16) / k, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      call.output<float>(0)[i] = dot(call.input<float>(0) + i * k, call.input<float>(1), k);
  });
}

const bool kAdded = ct::ladder::add({
    .name = "gemv",
    .what = kWhat,
    .device = DeviceType::cpu,
    .unit = Unit::bytes,
    .small = {{f32, {1, 1}}, {f32, {37, 53}}, {f32, {5, 1000}}},
    .timed = {{f32, {8192, 8192}}},
    .work = work,
    .inputs = inputs,
    .plain = plain,
    .library = library,
    .library_name = "ct::matmul",
    .rungs = {{"loops", "the definition: one chain of additions", loops},
              {"vectors", "sums that do not wait for one another", vectors},
              {"threads", "more lines of the cache under way at a time", threads}},
});

}  // namespace
}  // namespace ct::ladder::gemv
