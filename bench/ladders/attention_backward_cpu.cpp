#include "bench/ladders/attention_backward.h"

#include <cotangent/core/simd/exp.h>

#include <cmath>

#include "bench/ladders/rows_cpu.h"

// On the CPU a row of probabilities and of their gradients fits into the cache, so neither is ever a matrix: the scores are
// computed again, a fifth product for four.

namespace ct::ladder::attention_backward {
namespace {

constexpr int kParts = static_cast<int>(kD) / V::kSize;

struct Head {
  const float *q, *k, *v, *g;
  float *dq, *dk, *dv;
};
Head head_of(const Call& c, std::int64_t head) {
  const std::int64_t first = head * c.size(1) * kD;
  const auto in = [&](int i) { return c.input<float>(i) + first; };
  const auto out = [&](int i) {
    float* const to = c.output<float>(i) + first;
    std::fill(to, to + c.size(1) * kD, 0.f);
    return to;
  };
  return {in(0), in(1), in(2), in(3), out(0), out(1), out(2)};
}

float dot(const float* a, const float* b) {
  float sum = 0;
  for (std::int64_t d = 0; d < kD; ++d) sum += a[d] * b[d];
  return sum;
}
void add_to(float* y, float by, const float* x) {
  for (std::int64_t d = 0; d < kD; ++d) y[d] += by * x[d];
}

// Stored: p and ds as matrices of T x T, and the products one after the other, each of which fetches a matrix again.
void stored(const Call& c) {
  const std::int64_t T = c.size(1);
  std::vector<float> p(static_cast<std::size_t>(T * T)), ds(p);
  for (std::int64_t head = 0; head < c.size(0); ++head) {
    const Head h = head_of(c, head);
    for (std::int64_t i = 0; i < T; ++i) {
      float* const row = p.data() + i * T;
      for (std::int64_t j = 0; j < T; ++j) row[j] = dot(h.q + i * kD, h.k + j * kD) / 8;
      const float top = *std::max_element(row, row + T);
      float sum = 0;
      for (std::int64_t j = 0; j < T; ++j) sum += row[j] = std::exp(row[j] - top);
      for (std::int64_t j = 0; j < T; ++j) row[j] /= sum;
    }
    for (std::int64_t i = 0; i < T; ++i) {
      const float* const row = p.data() + i * T;
      float* const to = ds.data() + i * T;
      float mean = 0;
      for (std::int64_t j = 0; j < T; ++j) to[j] = dot(h.g + i * kD, h.v + j * kD);
      for (std::int64_t j = 0; j < T; ++j) mean += row[j] * to[j];
      for (std::int64_t j = 0; j < T; ++j) to[j] = row[j] * (to[j] - mean) / 8;
    }
    for (std::int64_t j = 0; j < T; ++j)
      for (std::int64_t i = 0; i < T; ++i) {
        const auto at = static_cast<std::size_t>(i * T + j);
        add_to(h.dq + i * kD, ds[at], h.k + j * kD);
        add_to(h.dk + j * kD, ds[at], h.q + i * kD);
        add_to(h.dv + j * kD, p[at], h.g + i * kD);
      }
  }
}

// Rows: all of it for one query, whose p and ds stay in the cache. dq is a sum over the row's keys; dk and dv of all keys are
// added to as the queries come by, in the order of the queries.
void row(const Head& h, std::int64_t i, std::int64_t T, float* p, float* ds) {
  for (std::int64_t j = 0; j < T; ++j) {
    p[j] = dot(h.q + i * kD, h.k + j * kD) / 8;
    ds[j] = dot(h.g + i * kD, h.v + j * kD);
  }
  const float top = *std::max_element(p, p + T);
  float sum = 0, mean = 0;
  for (std::int64_t j = 0; j < T; ++j) sum += p[j] = std::exp(p[j] - top);
  for (std::int64_t j = 0; j < T; ++j) mean += (p[j] /= sum) * ds[j];
  for (std::int64_t j = 0; j < T; ++j) {
    const float s = p[j] * (ds[j] - mean) / 8;
    add_to(h.dq + i * kD, s, h.k + j * kD);
    add_to(h.dk + j * kD, s, h.q + i * kD);
    add_to(h.dv + j * kD, p[j], h.g + i * kD);
  }
}

// Vectors: dots in lanes, two of them at once, with q and g in registers; exponentials on whole registers.
void row_of_vectors(const Head& h, std::int64_t i, std::int64_t T, float* p, float* ds) {
  V q[kParts], g[kParts], dq[kParts] = {};
  for (int part = 0; part < kParts; ++part) {
    q[part] = V::load(h.q + i * kD + part * V::kSize);
    g[part] = V::load(h.g + i * kD + part * V::kSize);
  }
  for (std::int64_t j = 0; j < T; ++j) {
    V s = 0, dp = 0;
#pragma GCC unroll 8
    for (int part = 0; part < kParts; ++part) {
      s = fma(q[part], V::load(h.k + j * kD + part * V::kSize), s);
      dp = fma(g[part], V::load(h.v + j * kD + part * V::kSize), dp);
    }
    p[j] = total(s) / 8, ds[j] = total(dp);
  }
  const float top = *std::max_element(p, p + T);
  V sum = 0, mean = 0;
  each_vector(T, [&](std::int64_t j, auto first) {
    const V e = simd::exp_nonpositive(load_or(p + j, first, -INFINITY) - top);
    sum += e;
    mean = fma(e, V::load(ds + j, first), mean);
    e.store(p + j, first);
  });
  const float scale = 1 / total(sum), all = total(mean) * scale;
  for (std::int64_t j = 0; j < T; ++j) {
    const V prob = p[j] * scale, s = prob * ((ds[j] - all) / 8);
#pragma GCC unroll 8
    for (int part = 0; part < kParts; ++part) {
      const std::int64_t d = j * kD + part * V::kSize;
      dq[part] = fma(s, V::load(h.k + d), dq[part]);
      fma(s, q[part], V::load(h.dk + d)).store(h.dk + d);
      fma(prob, g[part], V::load(h.dv + d)).store(h.dv + d);
    }
  }
  for (int part = 0; part < kParts; ++part) dq[part].store(h.dq + i * kD + part * V::kSize);
}

template <void (*of)(const Head&, std::int64_t, std::int64_t, float*, float*)>
void heads(const Call& c, std::int64_t begin, std::int64_t end) {
  const std::int64_t T = c.size(1);
  std::vector<float> p(static_cast<std::size_t>(T)), ds(p);
  for (std::int64_t head = begin; head < end; ++head) {
    const Head h = head_of(c, head);
    for (std::int64_t i = 0; i < T; ++i) of(h, i, T, p.data(), ds.data());
  }
}

// Threads: heads do not know of each other. Within one, two threads would add to the same dk.
void threads(const Call& c) {
  parallel_for(c.size(0), 1,
               [&](std::int64_t begin, std::int64_t end) { heads<row_of_vectors>(c, begin, end); });
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cpu);
  ladder.timed = {{f32, {8, 1024}}};
  ladder.rungs = {
      {"stored", "probabilities and their gradients as matrices in memory", stored},
      {"rows", "a query at a time: its row stays in the cache", one_thread<heads<row>>},
      {"vectors", "products and exponentials on whole registers", one_thread<heads<row_of_vectors>>},
      {"threads", "heads do not know of each other", threads}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::attention_backward
