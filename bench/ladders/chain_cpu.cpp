#include "bench/ladders/chain.h"

#include <cotangent/core/simd/exp.h>

#include <cmath>

#include "bench/ladders/rows_cpu.h"

// Five values lie between the inputs and the two gradients. Kept in registers they cost nothing; each that is a tensor is
// written and read again.

namespace ct::ladder::chain {
namespace {

struct Operands {
  const float *x, *m, *b, *g;
  float *dx, *dm;
};
Operands of(const Call& c) {
  return {c.input<float>(0), c.input<float>(1),  c.input<float>(2),
          c.input<float>(3), c.output<float>(0), c.output<float>(1)};
}

// Ops: a pass for each op of the gradient, as a tape of single ops walks: 64 bytes for the 24 of the formula.
void ops(const Call& c) {
  const Operands a = of(c);
  const auto n = static_cast<std::size_t>(c.size(0));
  std::vector<float> u(n), s(n), gm(n);
  const auto all = [&](const auto& one) {
    for (std::size_t i = 0; i < n; ++i) one(i);
  };
  all([&](std::size_t i) { u[i] = a.x[i] + a.b[i]; });
  all([&](std::size_t i) { s[i] = 1 / (1 + std::exp(-u[i])); });
  all([&](std::size_t i) { a.dm[i] = a.g[i] * (u[i] * s[i]); });
  all([&](std::size_t i) { gm[i] = a.g[i] * a.m[i]; });
  all([&](std::size_t i) { a.dx[i] = gm[i] * (s[i] + u[i] * s[i] * (1 - s[i])); });
}

// One pass: the same lines for one element at a time. The memory has less to do; what is left is the exponential of the C
// library, a call for each number.
void one_pass(const Call& c) {
  const Operands a = of(c);
  for (std::int64_t i = 0; i < c.size(0); ++i) {
    const float u = a.x[i] + a.b[i], s = 1 / (1 + std::exp(-u));
    a.dm[i] = a.g[i] * (u * s);
    a.dx[i] = a.g[i] * a.m[i] * (s + u * s * (1 - s));
  }
}

// Vectors: the exponential as a polynomial on whole registers.
void vectors(const Call& c, std::int64_t begin, std::int64_t end) {
  const Operands a = of(c);
  each_vector(end - begin, [&](std::int64_t k, auto first) {
    const std::int64_t i = begin + k;
    const V u = V::load(a.x + i, first) + V::load(a.b + i, first), s = 1 / (1 + simd::exp(-u)), us = u * s;
    const V g = V::load(a.g + i, first);
    (g * us).store(a.dm + i, first);
    (g * V::load(a.m + i, first) * (s + us * (1 - s))).store(a.dx + i, first);
  });
}

// Threads: elements do not know of each other.
void threads(const Call& c) {
  parallel_for(c.size(0), 1 << 14, [&](std::int64_t begin, std::int64_t end) { vectors(c, begin, end); });
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cpu);
  ladder.timed = {{f32, {1 << 24}}};
  ladder.rungs = {{"ops", "a pass for each op: what lies between is written and read again", ops},
                  {"one-pass", "what lies between stays in registers", one_pass},
                  {"vectors", "the exponential on whole registers", one_thread<vectors>},
                  {"threads", "elements do not know of each other", threads}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::chain
