#include "bench/ladders/adamw.h"

#include "bench/ladders/rows_cpu.h"

// m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g g, p <- keep p - rate m / (sqrt(v) by + eps): eleven operations for 28 bytes, so
// memory is the limit, if the 28 bytes are all that moves.

namespace ct::ladder::adamw {
namespace {

// Passes: line by line, as one writes it with tensors. Each line is a pass over memory, whose result the next one fetches
// again: 72 bytes for the 28 of the formula.
void passes(const Call& c) {
  const Factors f;
  std::vector<float> step(static_cast<std::size_t>(c.size(1)));
  for (std::int64_t t = 0; t < c.size(0); ++t) {
    const Pointers a = of(c, t);
    const auto all = [&](const auto& one) {
      for (std::int64_t i = 0; i < c.size(1); ++i) one(i);
    };
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    all([&](std::int64_t i) { a.to_m[i] = kBeta1 * a.m[i] + (1 - kBeta1) * a.g[i]; });
    all([&](std::int64_t i) { a.to_v[i] = kBeta2 * a.v[i] + (1 - kBeta2) * a.g[i] * a.g[i]; });
    all([&](std::int64_t i) { step[at(i)] = std::sqrt(a.to_v[i]); });
    all([&](std::int64_t i) { step[at(i)] = step[at(i)] * f.by + kEps; });
    all([&](std::int64_t i) { step[at(i)] = f.rate * a.to_m[i] / step[at(i)]; });
    all([&](std::int64_t i) { a.to_p[i] = a.p[i] * f.keep; });
    all([&](std::int64_t i) { a.to_p[i] -= step[at(i)]; });
  }
}

CT_INLINE V root(V v) {
  float x[V::kSize];
  v.store(x);
  for (float& one : x)
    one = std::sqrt(one);  // as many as a register has: the compiler makes one instruction of it
  return V::load(x);
}

// One pass: all lines for a vector at a time, in registers. Nobody waits for square root and division: the next vector does
// not need this one's.
void span(const Pointers& a, std::int64_t begin, std::int64_t end) {
  const Factors f;
  each_vector(end - begin, [&](std::int64_t k, auto first) {
    const std::int64_t i = begin + k;
    const V g = V::load(a.g + i, first);
    const V m = kBeta1 * V::load(a.m + i, first) + (1 - kBeta1) * g;
    const V v = kBeta2 * V::load(a.v + i, first) + (1 - kBeta2) * g * g;
    (V::load(a.p + i, first) * f.keep - f.rate * m / (root(v) * f.by + kEps)).store(a.to_p + i, first);
    m.store(a.to_m + i, first);
    v.store(a.to_v + i, first);
  });
}
void one_pass(const Call& c) {
  for (std::int64_t t = 0; t < c.size(0); ++t) span(of(c, t), 0, c.size(1));
}

// Threads: chunks of 2^16 numbers of all tensors together, so that many small ones are one piece of work, too.
void threads(const Call& c) {
  const std::int64_t grain = 1 << 16, chunks = chunk_count(c.size(1), grain);
  parallel_for(c.size(0) * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k)
      span(of(c, k / chunks), k % chunks * grain, std::min(c.size(1), (k % chunks + 1) * grain));
  });
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cpu);
  ladder.timed = {{f32, {16, 1 << 20}}};
  ladder.rungs = {{"passes", "line by line: seven passes over memory", passes},
                  {"one-pass", "all lines for a vector at a time: 28 bytes a number", one_pass},
                  {"threads", "chunks of all tensors together", threads}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::adamw
