#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <cotangent/core/base/rng.h>
#include <cotangent/core/memory/scratch_internal.h>
#include <cotangent/core/simd/exp_nonpositive.h>
#include <cotangent/ops/attention/attention_internal.h>
#include <cotangent/ops/engine/gemm/pack_cpu.h>
#include <cotangent/ops/engine/gemm/tiles_cpu.h>
#include <cotangent/ops/engine/rows/additive_mask_cpu.h>

// Shared parts of forward and backward on the CPU. A block is up to kQueries queries by up to kKeys
// keys. Scores are kept with queries along the vectors and one row per key: then nothing has to be packed but
// the queries, once, and softmax is elementwise work. C is the type that is computed in;
// 16-bit elements become floats as rows are loaded. f64 is the plain kernels' (attention_plain.h).

namespace ct::attention {

void backward_cpu(const Backward& b);  // attention_cpu_backward.cpp

using C = float;

inline constexpr int kQueries = 64;
inline constexpr int kKeys = 64;
static_assert(kQueries % 16 == 0);

inline constexpr C kMinusInf = -std::numeric_limits<C>::infinity();

inline std::int64_t round_up(std::int64_t x, std::int64_t step) { return (x + step - 1) / step * step; }
/// The distance of rows of `dim` elements in a buffer: whole vectors.
inline std::int64_t padded(std::int64_t dim) { return round_up(std::max<std::int64_t>(dim, 1), 16); }

// ---- Operands ----

/// A tensor [batch, heads, rows, dim] of any strides and floating dtype.
struct Operand {
  const void* data = nullptr;
  DType dtype = dtype_of<C>;
  std::int64_t batch = 0, head = 0, row = 0, col = 0, dim = 0;
  bool direct = false;  // rows are read where they lie

  Operand() = default;
  explicit Operand(const Tensor& t) : data(t.raw_data()), dtype(t.dtype()), dim(t.shape()[3]) {
    const Strides& s = t.strides();
    batch = s[0], head = s[1], row = s[2], col = s[3];
    // Rows a multiple of a page apart want the same few places of the first-level cache.
    const bool hostile = row * static_cast<std::int64_t>(sizeof(C)) % 4096 == 0;
    direct = dtype == dtype_of<C> && (col == 1 || dim <= 1) && !hostile;
  }
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t r) const {
    return b * batch + h * head + r * row;
  }
  void load(std::int64_t from, C* to) const {
    switch (dtype) {
      case DType::f16: return load_elements<Half>(data, from, col, dim, to);
      case DType::bf16: return load_elements<BFloat16>(data, from, col, dim, to);
      default: return load_elements<float>(data, from, col, dim, to);
    }
  }
};

/// The scalar product of two rows.
inline C dot(const C* a, const C* b, std::int64_t n) {
  using V = simd::FixedVector<C>;
  V sum(C(0)), other(C(0));
  std::int64_t i = 0;
  for (; i + 2 * V::kSize <= n; i += 2 * V::kSize) {
    sum += V::load(a + i) * V::load(b + i);
    other += V::load(a + i + V::kSize) * V::load(b + i + V::kSize);
  }
  for (; i < n; i += V::kSize) {
    const int m = static_cast<int>(std::min<std::int64_t>(V::kSize, n - i));
    if (m == V::kSize) {
      sum += V::load(a + i) * V::load(b + i);
    } else {
      other += V::load(a + i, V::first(m)) * V::load(b + i, V::first(m));
    }
  }
  return (sum + other).across([](const auto& x, const auto& y) { return x + y; });
}

/// Rows of an operand as C: where they lie, or copied.
struct Matrix {
  const C* data;
  std::int64_t stride;
};
inline Matrix rows_of(const Operand& x, std::int64_t b, std::int64_t h, std::int64_t first,
                      std::int64_t count, C* buffer) {
  if (x.dim == 0) return {buffer, 0};  // there is nothing, at no address
  if (x.direct) return {static_cast<const C*>(x.data) + x.at(b, h, first), x.row};
  const std::int64_t stride = padded(x.dim);
  // Long caches are read from memory: ask for rows well before they are converted, beyond this call's too.
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t bytes = x.col == 1 ? x.dim * size : 0,
                     ahead = std::min<std::int64_t>(4096 / (bytes + 1), 32);
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t at = x.at(b, h, first + r);
    const auto next =
        reinterpret_cast<std::uintptr_t>(x.data) + static_cast<std::uintptr_t>((at + ahead * x.row) * size);
    for (std::int64_t line = 0; line < bytes; line += 64)
      __builtin_prefetch(reinterpret_cast<const void*>(next + static_cast<std::uintptr_t>(line)));
    x.load(at, buffer + r * stride);
  }
  return {buffer, stride};
}

/// A row of C, rounded to `dtype`.
inline void store_row(const C* from, std::int64_t n, DType dtype, void* data, std::int64_t at) {
  switch (dtype) {
    case DType::f16: simd::convert_run(from, n, static_cast<Half*>(data) + at); break;
    case DType::bf16: simd::convert_run(from, n, static_cast<BFloat16*>(data) + at); break;
    default: std::copy_n(from, n, static_cast<C*>(data) + at);
  }
}

// ---- Products ----

/// to[d * kQueries + i] = factor * row i of x, element d; lanes from `count` to the next whole vector are 0.
inline void transpose_rows(const Matrix& x, std::int64_t count, std::int64_t dim, C factor, C* to) {
  using V = simd::Vector<C>;
  constexpr int w = V::kSize;
  for (std::int64_t j = 0; j < count; j += w) {
    const std::int64_t wide = std::min<std::int64_t>(w, count - j);
    for (std::int64_t p = 0; p < dim; p += w) {
      const std::int64_t deep = std::min<std::int64_t>(w, dim - p);
      const auto first = V::first(deep);
      V block[w];
      for (std::int64_t l = 0; l < w; ++l)
        block[l] = l < wide ? factor * V::load(x.data + (j + l) * x.stride + p, first) : V(C(0));
      simd::transpose(block);
      for (std::int64_t l = 0; l < deep; ++l) block[l].store(to + (p + l) * kQueries + j);
    }
  }
}

struct Range {
  std::int64_t begin, end;
};

/// c[i, j] = sum over p of r[i, p] v[p, j] (+ c[i, j] with `add`), in tiles of rows. cols(first, last) and
/// depth(first, last) say, for the rows first to last of a tile, which columns are wanted and which p count.
template <bool ByRows, class Cols, class Depth>
void product(std::int64_t rows, const C* r, std::int64_t r_stride, const C* v, std::int64_t v_stride,
             bool add, C* c, std::int64_t c_stride, const Cols& cols, const Depth& depth) {
  constexpr std::int64_t w = simd::Vector<C>::kSize;
  if (rows <= 0) return;
  const gemm::RowTiles tiles(rows, gemm::kRows);
  for (std::int64_t t = 0; t < tiles.count; ++t) {
    const std::int64_t i = tiles.begin(t), high = tiles.height(t);
    const Range columns = cols(i, i + high - 1), sum = depth(i, i + high - 1);
    gemm::TileArgs<C> args{};
    args.k = std::max<std::int64_t>(sum.end - sum.begin, 0);
    args.r = ByRows ? r + i * r_stride + sum.begin : r + sum.begin * r_stride + i;
    args.r_stride = r_stride;
    args.v_stride = v_stride;
    args.c_stride = args.start_stride = c_stride;
    for (std::int64_t j = columns.begin; j < columns.end; j += args.cols) {
      const std::int64_t left = (columns.end - j + w - 1) / w;
      const int vecs = high == 1 && left >= 8 ? 8 : high <= 3 && left >= 4 ? 4 : left >= 2 ? 2 : 1;
      args.cols = std::min<std::int64_t>(vecs * w, columns.end - j);
      args.v = v + sum.begin * v_stride + j;
      args.c = c + i * c_stride + j;
      args.start = add ? args.c : nullptr;
      gemm::tile_kernel<C>(high, vecs, ByRows, false)(args);
    }
  }
}

/// The range [0, n) whatever the rows.
inline auto all(std::int64_t n) {
  return [n](std::int64_t, std::int64_t) { return Range{0, n}; };
}

// ---- Masks and dropout of a block ----

/// The mask of a call: what is added to scores.
struct Mask {
  const void* data = nullptr;
  DType dtype = DType::boolean;
  std::int64_t batch = 0, head = 0, row = 0, col = 0;

  Mask(const Tensor& t, const Extents& e) {
    if (!t.defined()) return;
    const Strides s = broadcast_strides(t.shape(), t.strides(), {e.batch, e.heads, e.queries, e.keys});
    data = t.raw_data(), dtype = t.dtype();
    batch = s[0], head = s[1], row = s[2], col = s[3];
  }
  bool defined() const { return data != nullptr; }
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return b * batch + h * head + i * row + j * col;
  }
  /// n elements along the keys; of a bool mask, 0 where it is true and -inf elsewhere.
  void load(std::int64_t from, std::int64_t n, C* to) const { load_additive(data, dtype, from, col, n, to); }
};

/// n factors of dropout along the keys, of the probabilities from element `first` on.
inline void load_kept(const DropRule& rule, std::uint64_t first, std::int64_t n, C* to) {
  std::uint32_t words[256];
  const C keep = static_cast<C>(rule.keep);
  for (std::int64_t j = 0; j < n; j += 256) {
    const std::int64_t m = std::min<std::int64_t>(256, n - j);
    fill_words(rule.draw, first + static_cast<std::uint64_t>(j), m, words);
    const auto last = static_cast<std::uint32_t>(rule.threshold - 1);
    for (std::int64_t l = 0; l < m; ++l) to[j + l] = words[l] <= last ? C(0) : keep;
  }
}

/// A query: its head and its place.
struct Query {
  std::int64_t head, i;
};

/// Everything a block of scores depends on besides q and k.
struct Scores {
  Extents e;
  Attrs attrs;
  DropRule rule;
  Mask mask;

  Scores(const Extents& e, const Attrs& attrs, const Tensor& mask)
      : e(e), attrs(attrs), rule(attrs), mask(mask, e) {
    rule.draw = rule.draw.now();
  }

  bool drops() const { return rule.threshold > 0; }
  std::int64_t end(std::int64_t i) const { return causal_end(i, e.keys, attrs.causal, attrs.causal_offset); }

  /// Hides what the queries of a block do not see, and adds the mask. s is [n, kQueries]; query(lane) gives
  /// the Query of a lane. `tile` is a buffer like s.
  template <class QueryOf>
  void hide(std::int64_t b, std::int64_t first_key, std::int64_t n, std::int64_t lanes, const QueryOf& query,
            C* s, C* tile) const {
    using V = simd::FixedVector<C>;
    if (mask.defined()) {
      const bool by_key = mask.row == 0 && mask.head == 0;  // the same for all lanes
      C values[kKeys];
      if (by_key) mask.load(mask.at(b, 0, 0, first_key), n, values);
      if (!by_key)
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
          const Query q = query(lane);
          mask.load(mask.at(b, q.head, q.i, first_key), n, values);
          for (std::int64_t j = 0; j < n; ++j) tile[j * kQueries + lane] = values[j];
        }
      // A hidden element counts for nothing, not even where it is NaN.
      const std::int64_t whole = round_up(lanes, V::kSize);
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t lane = 0; lane < whole; lane += V::kSize) {
          const V m = by_key ? V(values[j]) : V::load(tile + j * kQueries + lane);
          const V x = V::load(s + j * kQueries + lane);
          where(m == kMinusInf, m, x + m).store(s + j * kQueries + lane);
        }
    }
    if (!attrs.causal) return;
    C ends[kQueries];  // from first_key on; small whole numbers
    bool any = false;
    for (std::int64_t lane = 0; lane < kQueries; ++lane) {
      const std::int64_t seen =
          lane < lanes ? std::clamp<std::int64_t>(end(query(lane).i) - first_key, 0, n) : n;
      any = any || seen < n;
      ends[lane] = static_cast<C>(seen);
    }
    if (!any) return;
    const std::int64_t whole = round_up(lanes, V::kSize);
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t lane = 0; lane < whole; lane += V::kSize) {
        const V x = V::load(s + j * kQueries + lane);
        where(static_cast<C>(j) < V::load(ends + lane), x, kMinusInf).store(s + j * kQueries + lane);
      }
  }

  /// The factors of dropout of a block, as [n, kQueries].
  template <class QueryOf>
  void kept(std::int64_t b, std::int64_t first_key, std::int64_t n, std::int64_t lanes, const QueryOf& query,
            C* tile) const {
    C values[kKeys];
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const Query q = query(lane);
      const std::int64_t row = (b * e.heads + q.head) * e.queries + q.i;
      load_kept(rule, static_cast<std::uint64_t>(row * e.keys + first_key), n, values);
      for (std::int64_t j = 0; j < n; ++j) tile[j * kQueries + lane] = values[j];
    }
  }
};

/// Cuts a thread's buffer into pieces, each on its own cache lines.
class Pieces {
 public:
  Pieces(int slot, std::int64_t total) : next_(detail::scratch<C>(slot, total)) {}
  C* take(std::int64_t count) {
    C* const piece = next_;
    next_ += round_up(count, 64 / static_cast<std::int64_t>(sizeof(C)));
    return piece;
  }

 private:
  C* next_;
};

}  // namespace ct::attention
