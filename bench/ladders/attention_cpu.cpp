#include <cotangent/core/simd/exp.h>
#include <cotangent/ops/attention/attention.h>
#include <cotangent/ops/creation/creation.h>

#include <cmath>

#include "bench/ladders/rows_cpu.h"

// y = softmax(q k^T / 8) v for each head, 64 channels, on the CPU. Scores are T^2 numbers that are used once.

namespace ct::ladder::attention {
namespace {

constexpr std::int64_t kD = 64;
constexpr int kParts = static_cast<int>(kD) / V::kSize;

// Scores: the definition: a matrix of scores, its softmax, and the product with v.
void scores(const Call& c) {
  const std::int64_t T = c.size(1);
  std::vector<float> all(static_cast<std::size_t>(T * T));
  for (std::int64_t head = 0; head < c.size(0); ++head) {
    const float *q = c.input<float>(0) + head * T * kD, *k = c.input<float>(1) + head * T * kD;
    const float* const v = c.input<float>(2) + head * T * kD;
    float* const y = c.output<float>(0) + head * T * kD;
    for (std::int64_t i = 0; i < T; ++i)
      for (std::int64_t j = 0; j < T; ++j) {
        float s = 0;
        for (std::int64_t d = 0; d < kD; ++d) s += q[i * kD + d] * k[j * kD + d];
        all[static_cast<std::size_t>(i * T + j)] = s / 8;
      }
    for (std::int64_t i = 0; i < T; ++i) {
      float* const row = all.data() + i * T;
      const float top = *std::max_element(row, row + T);
      float sum = 0;
      for (std::int64_t j = 0; j < T; ++j) sum += row[j] = std::exp(row[j] - top);
      for (std::int64_t j = 0; j < T; ++j) row[j] /= sum;
    }
    for (std::int64_t i = 0; i < T; ++i)
      for (std::int64_t d = 0; d < kD; ++d) {
        float sum = 0;
        for (std::int64_t j = 0; j < T; ++j) sum += all[static_cast<std::size_t>(i * T + j)] * v[j * kD + d];
        y[i * kD + d] = sum;
      }
  }
}

// Softmax of a row in place, on whole registers; returns 1 / sum, which is multiplied in at the end.
float exponentials(float* row, std::int64_t n) {
  const auto larger = [](V a, V b) { return where(a < b, b, a); };
  V most = -INFINITY, sum = 0;
  each_vector(n,
              [&](std::int64_t j, auto first) { most = larger(most, load_or(row + j, first, -INFINITY)); });
  const float top = most.across(larger);
  each_vector(n, [&](std::int64_t j, auto first) {
    const V e = simd::exp_nonpositive(load_or(row + j, first, -INFINITY) - top);
    sum += e;
    e.store(row + j, first);
  });
  return 1 / total(sum);
}

// kRows queries together. Their scores, T numbers each, stay in the cache and never are a matrix; a key and a value, once
// loaded, serve all of the queries.
template <int kRows>
void queries(const Call& c, std::int64_t head, std::int64_t i, float* rows) {
  const std::int64_t T = c.size(1), first = head * T * kD;
  const float *q = c.input<float>(0) + first + i * kD, *k = c.input<float>(1) + first,
              *v = c.input<float>(2) + first;
  for (std::int64_t j = 0; j < T; ++j) {
    V s[kRows] = {};
    for (int part = 0; part < kParts; ++part) {
      const V key = V::load(k + j * kD + part * V::kSize);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) s[r] = fma(key, V::load(q + r * kD + part * V::kSize), s[r]);
    }
    for (int r = 0; r < kRows; ++r) rows[r * T + j] = total(s[r]) / 8;
  }
  float scale[kRows];
  for (int r = 0; r < kRows; ++r) scale[r] = exponentials(rows + r * T, T);
  V y[kRows][kParts] = {};
  for (std::int64_t j = 0; j < T; ++j)
#pragma GCC unroll 8
    for (int part = 0; part < kParts; ++part) {
      const V value = V::load(v + j * kD + part * V::kSize);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) y[r][part] = fma(value, V(rows[r * T + j]), y[r][part]);
    }
  for (int r = 0; r < kRows; ++r)
    for (int part = 0; part < kParts; ++part)
      (y[r][part] * scale[r]).store(c.output<float>(0) + first + (i + r) * kD + part * V::kSize);
}

// Queries `begin` to `end` of all heads, counted through.
template <int kRows>
void some(const Call& c, std::int64_t begin, std::int64_t end) {
  const std::int64_t T = c.size(1);
  std::vector<float> rows(static_cast<std::size_t>(kRows * T));
  for (std::int64_t n = begin; n < end;) {
    const bool whole = n % T + kRows <= T && n + kRows <= end;
    whole ? queries<kRows>(c, n / T, n % T, rows.data()) : queries<1>(c, n / T, n % T, rows.data());
    n += whole ? kRows : 1;
  }
}
// Rows: one query at a time.
void rows(const Call& c) { some<1>(c, 0, c.size(0) * c.size(1)); }
// Four: of four queries' scores each key is loaded once, and so is each value.
void four(const Call& c) { some<4>(c, 0, c.size(0) * c.size(1)); }
// Threads: queries do not know of each other. Chunks of 32: how they are cut into fours does not depend on the threads.
void threads(const Call& c) {
  parallel_for(c.size(0) * c.size(1), 32,
               [&](std::int64_t begin, std::int64_t end) { some<4>(c, begin, end); });
}

Tensors attended(const Tensors& in) { return {ct::scaled_dot_product_attention(in[0], in[1], in[2])}; }

const bool kAdded = add({
    .name = "attention",
    .what = "y = softmax(q k^T / 8) v, heads x positions, 64 channels",
    .device = DeviceType::cpu,
    .small = {{f32, {3, 37}}, {f32, {1, 1}}},
    .timed = {{f32, {8, 1024}}},
    .work = [](const Case& c) { return 4.0 * kD * static_cast<double>(c.size[0] * c.size[1] * c.size[1]); },
    .inputs = [](const Case& c) -> Tensors {
      const auto one = [&] { return randn({c.size[0], 1, c.size[1], kD}); };
      return {one(), one(), one()};
    },
    .plain = attended,
    .library = attended,
    .library_name = "ct::scaled_dot_product_attention",
    .rungs = {{"scores", "the definition: a matrix of scores in memory", scores},
              {"rows", "the scores of one query stay in the cache", rows},
              {"four", "a key and a value serve four queries", four},
              {"threads", "queries do not know of each other", threads}},
    .slack = 4,
});

}  // namespace
}  // namespace ct::ladder::attention
