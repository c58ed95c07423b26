#include <cmath>

#include <cotangent/autograd/grad_mode.h>
#include <cotangent/core/device/parallel.h>
#include <cotangent/ops/attention/attention_cpu.h>
#include <cotangent/ops/engine/gemm/dots_cpu.h>
#include <cotangent/ops/engine/gemm/plan_cpu.h>

// Attention on the CPU, forward: a task is a block of queries, which meets its keys block by block. The
// maximum and the sum of softmax are kept as they are so far; when the maximum rises, what was summed is
// scaled down.
//
// Up to kFew queries (one step of generation) are another matter: there all time goes into reading keys and
// values once. They are read as they come, in vectors along the head dimension.

namespace ct::attention {
namespace {

constexpr std::int64_t kFew = 4;
constexpr std::int64_t kFewKeys = 512;  // of a block of the second kind

// The queries that share a key head, as rows of one matrix: heads one after the other.
struct Forwards : Scores {
  Operand q, k, v, place;  // the last one of the result
  void* out;
  C* statistics;  // of each query: the largest score, and log sum exp(score - largest)
  using Scores::e;

  explicit Forwards(const Forward& f)
      : Scores(Extents(f.in(0).shape(), f.in(1).shape(), f.in(2).shape()), f.attrs<Attrs>(), f.in(3)),
        q(f.in(0)),
        k(f.in(1)),
        v(f.in(2)),
        place(f.out(0)),
        out(f.out(0).raw_data()),
        statistics(f.out(1).data<C>()) {}

  // Rows [first, first + count) of those that share a key head.
  void find_queries(std::int64_t kv, std::int64_t first, std::int64_t count, Query* to) const {
    Query x{kv * e.group() + first / e.queries, first % e.queries};
    for (std::int64_t r = 0; r < count; ++r) {
      to[r] = x;
      if (++x.i == e.queries) x = {x.head + 1, 0};
    }
  }
  std::int64_t row_number(std::int64_t b, const Query& q) const {
    return (b * e.heads + q.head) * e.queries + q.i;
  }
  // Rows of q, copied, times `factor`.
  void load_queries(std::int64_t b, const Query* queries, std::int64_t count, C factor, C* to,
                    std::int64_t stride) const {
    for (std::int64_t r = 0; r < count; ++r) {
      q.load(q.at(b, queries[r].head, queries[r].i), to + r * stride);
      for (std::int64_t d = 0; d < e.dim; ++d) to[r * stride + d] *= factor;
    }
  }
  // The keys that any of the queries sees lie below this one.
  std::int64_t last_end(const Query* queries, std::int64_t count) const {
    std::int64_t last = 0;
    for (std::int64_t r = 0; r < count; ++r) last = std::max(last, end(queries[r].i));
    return last;
  }
  // Divides by the sum and writes row `x`.
  void finish(std::int64_t b, const Query& x, C max, C sum, C* acc) const {
    const std::int64_t row = row_number(b, x);
    const bool blind = sum == 0;  // what was seen has added at least 1, or NaN
    const C factor = blind ? C(0) : 1 / sum;
    for (std::int64_t d = 0; d < e.value_dim; ++d) acc[d] = blind ? C(0) : acc[d] * factor;
    store_row(acc, e.value_dim, place.dtype, out, place.at(b, x.head, x.i));
    statistics[2 * row] = blind ? kMinusInf : max;
    statistics[2 * row + 1] = blind ? C(0) : std::log(sum);
  }
};

// ---- Many queries ----

// One step of the online softmax: scores s [n, kQueries] become exp(s - max) with the new maximum; what was
// summed before is to be multiplied by `shrink`. The lanes of a vector see no keys from seen_by(first lane)
// on.
template <class SeenBy>
void softmax_step(C* s, std::int64_t keys, std::int64_t lanes, const SeenBy& seen_by, C* max, C* sum,
                  C* shrink) {
  using V = simd::FixedVector<C>;
  for (std::int64_t lane = 0; lane < lanes; lane += V::kSize) {
    const std::int64_t n = seen_by(lane);
    C* const column = s + lane;
    const auto before = V::load(max + lane);
    auto m = before, other = before;
    std::int64_t j = 0;
    for (; j + 2 <= n; j += 2) {
      const auto a = V::load(column + j * kQueries), b = V::load(column + (j + 1) * kQueries);
      m = where(a > m, a, m);
      other = where(b > other, b, other);
    }
    if (j < n) {
      const auto a = V::load(column + j * kQueries);
      m = where(a > m, a, m);
    }
    m = where(other > m, other, m);
    // Where nothing was seen yet, all differences are -inf. A NaN is passed over here and met in the sum.
    const V base = where(m == kMinusInf, 0, m);
    const V factor = exp_nonpositive(before - base);
    V added(C(0));
    for (j = 0; j < n; ++j) {
      const V p = exp_nonpositive(V::load(column + j * kQueries) - base);
      p.store(column + j * kQueries);
      added += p;
    }
    for (; j < keys; ++j) V(C(0)).store(column + j * kQueries);
    m.store(max + lane);
    (V::load(sum + lane) * factor + added).store(sum + lane);
    factor.store(shrink + lane);
  }
}

void many_queries(const Forwards& f, std::int64_t b, std::int64_t kv, std::int64_t first,
                  std::int64_t count) {
  const Extents& e = f.e;
  const std::int64_t stride = padded(e.dim), v_stride = padded(e.value_dim);
  Pieces pieces(0, kQueries * stride * 2 + kQueries * v_stride + kKeys * (stride + v_stride) +
                       2 * kKeys * kQueries + 8 * kQueries);
  C* const rows = pieces.take(kQueries * stride);
  C* const qt = pieces.take(kQueries * stride);
  C* const acc = pieces.take(kQueries * v_stride);
  C* const k_buffer = pieces.take(kKeys * stride);
  C* const v_buffer = pieces.take(kKeys * v_stride);
  C* const s = pieces.take(kKeys * kQueries);
  C* const tile = pieces.take(kKeys * kQueries);
  C* const max = pieces.take(kQueries);
  C* const sum = pieces.take(kQueries);
  C* const shrink = pieces.take(kQueries);

  Query queries[kQueries];
  f.find_queries(kv, first, count, queries);
  f.load_queries(b, queries, count, static_cast<C>(f.attrs.scale), rows, stride);
  const std::int64_t lanes = round_up(count, simd::FixedVector<C>::kSize);
  if (count < lanes)
    for (std::int64_t d = 0; d < e.dim; ++d) std::fill_n(qt + d * kQueries, lanes, C(0));
  transpose_rows(Matrix{rows, stride}, count, e.dim, C(1), qt);
  std::fill_n(max, kQueries, kMinusInf);
  std::fill_n(sum, kQueries, C(0));

  const auto query = [&](std::int64_t lane) -> const Query& { return queries[lane]; };
  // Within one head, causality leaves a triangle: what lies outside is not computed.
  const bool triangle = f.attrs.causal && query(0).head == query(count - 1).head;
  const std::int64_t diagonal = query(0).i + f.attrs.causal_offset;  // the last key that the first query sees
  const std::int64_t end = f.last_end(queries, count);
  if (end == 0) std::fill_n(acc, count * v_stride, C(0));
  for (std::int64_t j0 = 0; j0 < end; j0 += kKeys) {
    const std::int64_t n = std::min<std::int64_t>(kKeys, end - j0);
    const Matrix k = rows_of(f.k, b, kv, j0, n, k_buffer);
    const Matrix v = rows_of(f.v, b, kv, j0, n, v_buffer);
    const auto lanes_of = [&](std::int64_t key, std::int64_t) {
      const std::int64_t skip = triangle ? std::clamp<std::int64_t>(j0 + key - diagonal, 0, lanes) : 0;
      return Range{skip / simd::FixedVector<C>::kSize * simd::FixedVector<C>::kSize, lanes};
    };
    product<true>(n, k.data, k.stride, qt, kQueries, false, s, kQueries, lanes_of, all(e.dim));
    f.hide(b, j0, n, count, query, s, tile);
    const auto seen_by = [&](std::int64_t lane) {
      return triangle ? std::clamp<std::int64_t>(diagonal + lane + simd::FixedVector<C>::kSize - j0, 0, n)
                      : n;
    };
    softmax_step(s, n, lanes, seen_by, max, sum, shrink);
    if (f.drops()) {
      f.kept(b, j0, n, count, query, tile);
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t lane = 0; lane < count; ++lane) s[j * kQueries + lane] *= tile[j * kQueries + lane];
    }
    if (j0 > 0)
      for (std::int64_t r = 0; r < count; ++r)
        if (shrink[r] != 1)
          for (std::int64_t d = 0; d < e.value_dim; ++d) acc[r * v_stride + d] *= shrink[r];
    const auto keys_of = [&](std::int64_t, std::int64_t row) {
      return Range{0, triangle ? std::clamp<std::int64_t>(diagonal + row + 1 - j0, 0, n) : n};
    };
    product<false>(count, s, kQueries, v.data, v.stride, j0 > 0, acc, v_stride, all(e.value_dim), keys_of);
  }
  for (std::int64_t r = 0; r < count; ++r) f.finish(b, queries[r], max[r], sum[r], acc + r * v_stride);
}

// ---- Few queries ----

// s [count, kFewKeys] = queries times keys; both contiguous along the head dimension.
void dot_scores(const C* q, std::int64_t q_stride, std::int64_t count, const Matrix& k, std::int64_t n,
                std::int64_t dim, C* s) {
  const gemm::RowTiles heights(count, gemm::kTall<C>);
  for (std::int64_t j = 0; j < n; j += gemm::kShort<C>) {
    const std::int64_t wide = std::min<std::int64_t>(gemm::kShort<C>, n - j);
    for (std::int64_t t = 0; t < heights.count; ++t) {
      const std::int64_t i = heights.begin(t);
      const gemm::DotArgs<C> args{
          dim, q + i * q_stride, q_stride, k.data + j * k.stride, k.stride, s + i * kFewKeys + j, kFewKeys, 1,
          0,   nullptr};
      gemm::dot_kernel<C>(heights.height(t), wide)(args);
    }
  }
}

// The same step of the online softmax for one row of n scores. Returns what was summed before times this.
C softmax_row_step(C* s, std::int64_t n, C& max, C& sum) {
  using V = simd::FixedVector<C>;
  for (std::int64_t j = n; j < round_up(n, V::kSize); ++j) s[j] = kMinusInf;
  V m(max);
  for (std::int64_t j = 0; j < n; j += V::kSize) {
    const auto a = V::load(s + j);
    m = where(a > m, a, m);
  }
  const C highest = m.across([](const auto& a, const auto& b) { return where(b > a, b, a); });
  const C base = highest == kMinusInf ? C(0) : highest;
  const C factor = simd::exp_nonpositive(max - base);
  V added(C(0));
  for (std::int64_t j = 0; j < n; j += V::kSize) {
    const V p = exp_nonpositive(V::load(s + j) - base);
    p.store(s + j);
    added += p;
  }
  sum = sum * factor + added.across([](const auto& a, const auto& b) { return a + b; });
  max = highest;
  return factor;
}

void few_queries(const Forwards& f, std::int64_t b, std::int64_t kv, std::int64_t count) {
  const Extents& e = f.e;
  const std::int64_t stride = padded(e.dim), v_stride = padded(e.value_dim);
  Pieces pieces(0, kFew * (stride + v_stride) + kFewKeys * (stride + v_stride) + (kFew + 1) * kFewKeys);
  C* const q = pieces.take(kFew * stride);
  C* const acc = pieces.take(kFew * v_stride);
  C* const k_buffer = pieces.take(kFewKeys * stride);
  C* const v_buffer = pieces.take(kFewKeys * v_stride);
  C* const s = pieces.take(kFew * kFewKeys);
  C* const tile = pieces.take(kFewKeys);
  C max[kFew], sum[kFew] = {};
  std::fill_n(max, kFew, kMinusInf);
  std::fill_n(acc, kFew * v_stride, C(0));
  Query queries[kFew];
  f.find_queries(kv, 0, count, queries);
  f.load_queries(b, queries, count, static_cast<C>(f.attrs.scale), q, stride);

  const std::int64_t end = f.last_end(queries, count);
  // Converted blocks must stay in the first-level cache.
  const std::int64_t step = f.k.direct && f.v.direct ? kFewKeys : kKeys;
  for (std::int64_t j0 = 0; j0 < end; j0 += step) {
    const std::int64_t n = std::min<std::int64_t>(step, end - j0);
    dot_scores(q, stride, count, rows_of(f.k, b, kv, j0, n, k_buffer), n, e.dim, s);
    for (std::int64_t r = 0; r < count; ++r) {
      const Query& x = queries[r];
      C* const row = s + r * kFewKeys;
      if (f.mask.defined()) {
        f.mask.load(f.mask.at(b, x.head, x.i, j0), n, tile);
        for (std::int64_t j = 0; j < n; ++j) row[j] = tile[j] == kMinusInf ? tile[j] : row[j] + tile[j];
      }
      for (std::int64_t j = std::max<std::int64_t>(f.end(x.i) - j0, 0); j < n; ++j) row[j] = kMinusInf;
      const C shrink = softmax_row_step(row, n, max[r], sum[r]);
      if (shrink != 1)
        for (std::int64_t d = 0; d < e.value_dim; ++d) acc[r * v_stride + d] *= shrink;
      if (f.drops()) {
        load_kept(f.rule, static_cast<std::uint64_t>(f.row_number(b, x) * e.keys + j0), n, tile);
        for (std::int64_t j = 0; j < n; ++j) row[j] *= tile[j];
      }
    }
    const Matrix v = rows_of(f.v, b, kv, j0, n, v_buffer);
    product<true>(count, s, kFewKeys, v.data, v.stride, true, acc, v_stride, all(e.value_dim), all(n));
  }
  for (std::int64_t r = 0; r < count; ++r) f.finish(b, queries[r], max[r], sum[r], acc + r * v_stride);
}

void forward(const Forward& call) {
  const Forwards f(call);
  const Extents& e = f.e;
  if (call.out(1).numel() == 0) return;
  const double macs = static_cast<double>(e.keys) * static_cast<double>(e.dim + e.value_dim);  // of a query
  const std::int64_t rows = e.group() * e.queries;  // that share a key head
  if (rows <= kFew) {
    parallel_for(e.batch * e.kv_heads, gemm::grain_of(4 * macs), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) few_queries(f, t / e.kv_heads, t % e.kv_heads, rows);
    });
    return;
  }
  // Short heads share a block, long ones begin a new one each.
  const bool shared = e.queries < kQueries / 2;
  const std::int64_t span = shared ? rows : e.queries, parts = rows / span;
  const std::int64_t blocks = (span + kQueries - 1) / kQueries;
  parallel_for(e.batch * e.kv_heads * parts * blocks,
               gemm::grain_of(macs * static_cast<double>(std::min<std::int64_t>(span, kQueries))),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t t = begin; t < end; ++t) {
                   const std::int64_t block = t % blocks, part = t / blocks % parts,
                                      head = t / blocks / parts;
                   const std::int64_t first = block * kQueries;
                   many_queries(f, head / e.kv_heads, head % e.kv_heads, part * span + first,
                                std::min<std::int64_t>(kQueries, span - first));
                 }
               });
}

void forward_cpu(const Forward& f) {
  NoGrad guard;
  forward(f);
}

}  // namespace
}  // namespace ct::attention

CT_KERNELS(cpu, attention, {attention::kName, attention::forward_cpu, attention::backward_cpu})
