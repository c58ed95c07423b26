#include "bench/ladders/layer_norm_backward.h"

#include <cmath>

#include "bench/ladders/rows_cpu.h"

// With h = (x - mean) rstd and d = g w: dx = rstd (d - mean(d) - h mean(d h)) along rows, dw = sum g h and db = sum g down
// columns. The rows want to be walked along, the columns across; the ladder is about doing both in one walk.

namespace ct::ladder::layer_norm_backward {
namespace {

struct Row {
  const float *x, *g;
  float mean, rstd, of_d, of_dh;  // the last two: the means of d and of d h
};

Row row_of(const Call& c, std::int64_t row) {
  const std::int64_t n = c.size(1);
  const float* w = c.input<float>(1);
  Row r{c.input<float>(0) + row * n, c.input<float>(3) + row * n, 0, 0, 0, 0};
  const float count = static_cast<float>(n);
  for (std::int64_t i = 0; i < n; ++i) r.mean += r.x[i] / count;
  float squares = 0;
  for (std::int64_t i = 0; i < n; ++i) squares += (r.x[i] - r.mean) * (r.x[i] - r.mean);
  r.rstd = 1 / std::sqrt(squares / count + kEps);
  for (std::int64_t i = 0; i < n; ++i) {
    const float d = r.g[i] * w[i], h = (r.x[i] - r.mean) * r.rstd;
    r.of_d += d / count;
    r.of_dh += d * h / count;
  }
  return r;
}
void dx_of(const Call& c, std::int64_t row, const Row& r) {
  const std::int64_t n = c.size(1);
  const float* w = c.input<float>(1);
  for (std::int64_t i = 0; i < n; ++i) {
    const float d = r.g[i] * w[i], h = (r.x[i] - r.mean) * r.rstd;
    c.output<float>(0)[row * n + i] = r.rstd * (d - r.of_d - h * r.of_dh);
  }
}

// Columns: the formulas one after the other. dx goes along the rows; then each of dw and db goes down its column, where the
// next number is a row away, on another line of the cache, and x and g are fetched once more.
void columns(const Call& c) {
  const std::int64_t rows = c.size(0), n = c.size(1);
  std::vector<Row> all;
  for (std::int64_t row = 0; row < rows; ++row) dx_of(c, row, all.emplace_back(row_of(c, row)));
  for (std::int64_t i = 0; i < n; ++i) {
    float dw = 0, db = 0;
    for (const Row& r : all) {
      dw += r.g[i] * (r.x[i] - r.mean) * r.rstd;
      db += r.g[i];
    }
    c.output<float>(1)[i] = dw;
    c.output<float>(2)[i] = db;
  }
}

// Rows: while a row is in the cache, it is added to dw and db, which stay there, too: the same sums in the same order, walked
// along. x and g come from memory once.
void rows_once(const Call& c) {
  const std::int64_t n = c.size(1);
  float *dw = c.output<float>(1), *db = c.output<float>(2);
  std::fill(dw, dw + n, 0.f);
  std::fill(db, db + n, 0.f);
  for (std::int64_t row = 0; row < c.size(0); ++row) {
    const Row r = row_of(c, row);
    dx_of(c, row, r);
    for (std::int64_t i = 0; i < n; ++i) {
      dw[i] += r.g[i] * (r.x[i] - r.mean) * r.rstd;
      db[i] += r.g[i];
    }
  }
}

// Vectors: the four sums along a row in lanes, and the last walk does all that is left: dx, dw and db of a vector.
void vectors_of(const Call& c, std::int64_t begin, std::int64_t end, float* dw, float* db) {
  const std::int64_t n = c.size(1);
  const float* w = c.input<float>(1);
  const float count = static_cast<float>(n);
  for (std::int64_t row = begin; row < end; ++row) {
    const float *x = c.input<float>(0) + row * n, *g = c.input<float>(3) + row * n;
    V sum = 0, squares = 0, of_d = 0, of_dh = 0;
    each_vector(n, [&](std::int64_t i, auto first) { sum += V::load(x + i, first); });
    const V mean = total(sum) / count;
    each_vector(n, [&](std::int64_t i, auto first) {
      const V off = load_or(x + i, first, mean) - mean;
      squares = fma(off, off, squares);
    });
    const V rstd = 1 / std::sqrt(total(squares) / count + kEps);
    each_vector(n, [&](std::int64_t i, auto first) {
      const V d = V::load(g + i, first) * V::load(w + i, first);
      of_d += d;
      of_dh = fma(d, (V::load(x + i, first) - mean) * rstd, of_dh);
    });
    const V shift = total(of_d) / count, along = total(of_dh) / count;
    each_vector(n, [&](std::int64_t i, auto first) {
      const V gg = V::load(g + i, first), h = (V::load(x + i, first) - mean) * rstd;
      (rstd * (gg * V::load(w + i, first) - shift - h * along))
          .store(c.output<float>(0) + row * n + i, first);
      fma(gg, h, V::load(dw + i, first)).store(dw + i, first);
      (gg + V::load(db + i, first)).store(db + i, first);
    });
  }
}
void vectors(const Call& c) {
  float *dw = c.output<float>(1), *db = c.output<float>(2);
  std::fill(dw, dw + c.size(1), 0.f);
  std::fill(db, db + c.size(1), 0.f);
  vectors_of(c, 0, c.size(0), dw, db);
}

// Threads: each chunk of 128 rows has a dw and a db of its own, added up at the end in the order of the chunks. The chunks
// are cut by the rows, not by the threads: the same bits for any number of them.
void threads(const Call& c) {
  const std::int64_t n = c.size(1), grain = 128;
  const auto chunks = static_cast<std::size_t>(chunk_count(c.size(0), grain));
  std::vector<float> parts(chunks * 2 * static_cast<std::size_t>(n));
  parallel_chunks(c.size(0), grain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    float* const dw = parts.data() + chunk * 2 * n;
    vectors_of(c, begin, end, dw, dw + n);
  });
  for (int which = 0; which < 2; ++which) {
    float* const y = c.output<float>(1 + which);
    std::fill(y, y + n, 0.f);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
      for (std::int64_t i = 0; i < n; ++i)
        y[i] += parts[(2 * chunk + static_cast<std::size_t>(which)) * static_cast<std::size_t>(n) +
                      static_cast<std::size_t>(i)];
  }
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cpu);
  ladder.timed = {{f32, {16'384, 1024}}};
  ladder.rungs = {{"columns", "the formulas: dx along rows, then dw and db down columns", columns},
                  {"rows", "dw and db while the row is in the cache: one read", rows_once},
                  {"vectors", "four sums in lanes, and one last walk for all three results", vectors},
                  {"threads", "a dw and a db for each chunk of rows, joined in order", threads}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::layer_norm_backward
