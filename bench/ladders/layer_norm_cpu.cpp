#include <cotangent/ops/creation/creation.h>
#include <cotangent/ops/normalization/layer_norm.h>

#include <cmath>

#include "bench/ladders/rows_cpu.h"

// y = (x - mean) / sqrt(variance + eps) * w + b along rows on the CPU. A row of 1024 numbers stays in the first-level cache
// between its three walks; the sums, chains of additions, are what takes the time.

namespace ct::ladder::layer_norm {
namespace {

constexpr float kEps = 1e-5f;

// Loops: the definition. Two sums of 1024 numbers, in which each addition waits three to four cycles for the one before.
void loops(const Call& c, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = c.size(1);
  const float *w = c.input<float>(1), *b = c.input<float>(2);
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = c.input<float>(0) + row * n;
    float sum = 0, squares = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += x[i];
    const float mean = sum / static_cast<float>(n);
    for (std::int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float scale = 1 / std::sqrt(squares / static_cast<float>(n) + kEps);
    for (std::int64_t i = 0; i < n; ++i)
      c.output<float>(0)[row * n + i] = (x[i] - mean) * scale * w[i] + b[i];
  }
}

// Vectors: as many sums as a register has lanes, joined at the end in one order. A short last vector is filled up with the
// mean in the second walk, whose squares are 0.
void vectors(const Call& c, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = c.size(1);
  const float *w = c.input<float>(1), *b = c.input<float>(2);
  for (std::int64_t row = begin; row < end; ++row) {
    const float* x = c.input<float>(0) + row * n;
    V sum = 0, squares = 0;
    each_vector(n, [&](std::int64_t i, auto first) { sum += V::load(x + i, first); });
    const V mean = total(sum) / static_cast<float>(n);
    each_vector(n, [&](std::int64_t i, auto first) {
      const V d = load_or(x + i, first, mean) - mean;
      squares = fma(d, d, squares);
    });
    const V scale = 1 / std::sqrt(total(squares) / static_cast<float>(n) + kEps);
    each_vector(n, [&](std::int64_t i, auto first) {
      const V h = (V::load(x + i, first) - mean) * scale;
      fma(h, V::load(w + i, first), V::load(b + i, first)).store(c.output<float>(0) + row * n + i, first);
    });
  }
}

Tensors normalized(const Tensors& in) { return {ct::layer_norm(in[0], in[1], in[2], kEps)}; }

const bool kAdded = add({
    .name = "layer_norm",
    .what = "y = layer_norm(x) w + b, rows x their length",
    .device = DeviceType::cpu,
    .unit = Unit::bytes,
    .small = {{f32, {37, 1000}}, {f32, {3, 5}}},
    .timed = {{f32, {16'384, 1024}}},
    .work = [](const Case& c) { return 8.0 * static_cast<double>(c.size[0] * c.size[1]); },
    .inputs = [](const Case& c) -> Tensors {
      return {randn({c.size[0], c.size[1]}), randn({c.size[1]}), randn({c.size[1]})};
    },
    .plain = normalized,
    .library = normalized,
    .library_name = "ct::layer_norm",
    .rungs = {{"loops", "the definition: two chains of additions a row", one_thread<loops>},
              {"vectors", "sums in lanes that do not wait for one another", one_thread<vectors>},
              {"threads", "rows do not know of each other", all_threads<vectors>}},
});

}  // namespace
}  // namespace ct::ladder::layer_norm
