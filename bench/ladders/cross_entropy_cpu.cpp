#include "bench/ladders/cross_entropy.h"

#include <cotangent/core/simd/exp.h>

#include <cmath>

#include "bench/ladders/rows_cpu.h"

// Loss of a row: log sum_j e^(x_j) - x_label; its gradient: softmax(x) - [label], over the number of rows. Both need the same
// exponentials.

namespace ct::ladder::cross_entropy {
namespace {

// Row by row, in the order of the rows: `row` returns the loss of one and writes its dx.
template <float (*row)(const float*, float*, std::int64_t label, std::int64_t n, float share)>
double rows(const Call& c, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = c.size(1);
  const float share = 1 / static_cast<float>(c.size(0));
  double loss = 0;
  for (std::int64_t i = begin; i < end; ++i)
    loss += row(c.input<float>(0) + i * n, c.output<float>(1) + i * n, c.input<std::int64_t>(1)[i], n, share);
  return loss;
}
template <float (*row)(const float*, float*, std::int64_t, std::int64_t, float)>
void all_rows(const Call& c) {
  *c.output<float>(0) = static_cast<float>(rows<row>(c, 0, c.size(0)) / static_cast<double>(c.size(0)));
}

float top_of(const float* x, std::int64_t n) {
  float top = x[0];
  for (std::int64_t i = 1; i < n; ++i) top = std::max(top, x[i]);
  return top;
}

// Apart: the loss, then its gradient, each with exponentials of its own, as two ops that know nothing of each other.
float apart(const float* x, float* dx, std::int64_t label, std::int64_t n, float share) {
  const float top = top_of(x, n);
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - top);
  const float lse = top + std::log(sum);
  for (std::int64_t i = 0; i < n; ++i) dx[i] = (std::exp(x[i] - lse) - (i == label ? 1.f : 0.f)) * share;
  return lse - x[label];
}

// Stored: the exponentials of the sum are left in dx, and become the gradient there: half as many.
float stored(const float* x, float* dx, std::int64_t label, std::int64_t n, float share) {
  const float top = top_of(x, n);
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += dx[i] = std::exp(x[i] - top);
  for (std::int64_t i = 0; i < n; ++i) dx[i] *= share / sum;
  dx[label] -= share;
  return top + std::log(sum) - x[label];
}

// Vectors: largest number, exponentials and sum in lanes. The label is one subtraction behind the loop, no question in it.
float vectors(const float* x, float* dx, std::int64_t label, std::int64_t n, float share) {
  const auto larger = [](V a, V b) { return where(a < b, b, a); };
  V most = -INFINITY, sum = 0;
  each_vector(n, [&](std::int64_t i, auto first) { most = larger(most, load_or(x + i, first, -INFINITY)); });
  const float top = most.across(larger);
  each_vector(n, [&](std::int64_t i, auto first) {
    const V e = simd::exp_nonpositive(load_or(x + i, first, -INFINITY) - top);
    sum += e;
    e.store(dx + i, first);
  });
  const float all = total(sum);
  const V scale = share / all;
  each_vector(n, [&](std::int64_t i, auto first) { (V::load(dx + i, first) * scale).store(dx + i, first); });
  dx[label] -= share;
  return top + std::log(all) - x[label];
}

// Threads: a loss for each chunk of rows, added up in the order of the chunks.
void threads(const Call& c) {
  const std::int64_t grain = 1 + (1 << 14) / c.size(1);
  std::vector<double> losses(static_cast<std::size_t>(chunk_count(c.size(0), grain)));
  parallel_chunks(c.size(0), grain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    losses[static_cast<std::size_t>(chunk)] = rows<vectors>(c, begin, end);
  });
  double loss = 0;
  for (const double one : losses) loss += one;
  *c.output<float>(0) = static_cast<float>(loss / static_cast<double>(c.size(0)));
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cpu);
  ladder.timed = {{f32, {16'384, 1024}}};
  ladder.rungs = {
      {"apart", "loss and gradient each with its own exponentials", all_rows<apart>},
      {"stored", "the exponentials of the sum become the gradient: half as many", all_rows<stored>},
      {"vectors", "whole registers, no question about the label in the loop", all_rows<vectors>},
      {"threads", "rows do not know of each other; losses are joined in order", threads}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::cross_entropy
