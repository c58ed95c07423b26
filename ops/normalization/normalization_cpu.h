#pragma once

#include <algorithm>
#include <cmath>

#include <cotangent/core/parallel.h>
#include <cotangent/core/simd/stream.h>
#include <cotangent/ops/engine/fold/fold_cpu.h>
#include <cotangent/ops/engine/fold/folds_cpu.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/normalization/normalization_internal.h>

// layer_norm and rms_norm on the CPU. A row is worked on in the cache, in whole vectors: its mean, its
// variance around the mean, the result. Rows of 16 bits are widened first and rounded once.
//
// Backward goes over a row twice: the two sums that dx needs, together with the row's share of dweight and
// dbias, and then dx. Those shares are collected per chunk of rows; there are at most kChunks, added up in
// their order.

namespace ct::norms {

inline constexpr std::int64_t kGrain = 16384;  // elements per chunk
inline constexpr std::int64_t kChunks = 64;

using fold::kBlock;
using fold::load_block;
using fold::store_block;

/// A weight or bias in the type of the arithmetic, or nothing.
template <class T>
class Parameter {
 public:
  using C = compute_t<T>;
  explicit Parameter(const Tensor& t) {
    if (!t.defined()) return;
    held_ = converted(t, dtype_of<C>);
    data_ = static_cast<const C*>(held_.raw_data());
  }
  /// Elements from i on; `otherwise`, kBlock constants, where there are none.
  const C* from(std::int64_t i, const C* otherwise) const { return data_ ? data_ + i : otherwise; }

 private:
  Tensor held_;
  const C* data_ = nullptr;
};

template <class C>
struct Constants {
  alignas(64) C ones[kBlock], zeros[kBlock];
  Constants() {
    std::fill_n(ones, kBlock, C(1));
    std::fill_n(zeros, kBlock, C(0));
  }
};

/// Calls body(first, count) for the blocks of a row.
template <class Body>
inline void for_blocks(std::int64_t columns, const Body& body) {
  for (std::int64_t i = 0; i < columns; i += kBlock)
    body(i, static_cast<int>(std::min<std::int64_t>(kBlock, columns - i)));
}

template <class T>
const T* elements(const Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.raw_data()) : nullptr;
}
template <class T>
T* results(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.raw_data()) : nullptr;
}

template <class T, class R>
void add_row(const T* a, const R* b, T* sum, std::int64_t n) {
  using C = compute_t<T>;
  C a_buffer[kBlock], b_buffer[kBlock], out[kBlock];
  for_blocks(n, [&](std::int64_t i, int m) {
    const C *p = load_block<T, C>(a + i, 1, m, a_buffer), *q = load_block<R, C>(b + i, 1, m, b_buffer);
    for (int j = 0; j < m; ++j) out[j] = p[j] + q[j];
    store_block<T, C>(sum + i, 0, out, m, false);
  });
}

// y = (x - mean) rstd w + b of m elements.
template <bool kCentered, class T, class L, class C>
void normalize(const T* x, const C* w, const C* b, int m, C mean, C rstd, L* y, bool streams) {
  using V = simd::FixedVector<C>;
  const auto of = [&](std::int64_t j, auto... first) {
    const V v = V::load(x + j, first...), ws = V::load(w + j, first...);
    if constexpr (kCentered) return fma((v - mean) * rstd, ws, V::load(b + j, first...));
    return v * rstd * ws;
  };
  simd::for_pairs<V>(
      0, m,
      [&](std::int64_t j) {
        const V a = of(j), b = of(j + V::kSize);
        simd::store_two(a, b, y + j, streams);
      },
      [&](std::int64_t j, auto first) { of(j, first).store(y + j, first); });
}

template <bool kCentered, class T, class L>
void forward_rows(const ForwardCall& call) {
  using C = compute_t<T>;
  static const Constants<C> constants;
  const std::int64_t n = call.layout.columns;
  const Parameter<T> weight(call.weight), bias(call.bias);
  const T *x = elements<T>(call.x), *residual = elements<T>(call.residual);
  const L* low_residual = elements<L>(call.low_residual);
  L* y = results<L>(call.y);
  T* sums = results<T>(call.sum);
  C *means = results<C>(call.mean), *rstds = results<C>(call.rstd);
  const bool streams = simd::streams_rows(y, call.layout.rows, n, 1);
  parallel_for(
      call.layout.rows, std::max<std::int64_t>(1, kGrain / n), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const T* from = x + row * n;
          if (residual) add_row(from, residual + row * n, sums + row * n, n);
          if (low_residual) add_row(from, low_residual + row * n, sums + row * n, n);
          if (sums) from = sums + row * n;
          double total = 0, square = 0;
          // Summed around an element of the row: far from 0 the mean's rounding would count as
          // spread.
          const C pivot = kCentered && n > 0 ? static_cast<C>(from[0]) : C(0);
          if constexpr (kCentered)
            for_blocks(n, [&](std::int64_t i, int m) {
              total += fold::fold_vectors(
                  from + i, m, C(0), [pivot](const auto& v) { return v - pivot; }, fold::kPlus, pivot);
            });
          const C mean = static_cast<C>(static_cast<double>(pivot) + total / static_cast<double>(n));
          const auto add = [&](const auto& squared) {
            for_blocks(n, [&](std::int64_t i, int m) {
              square += fold::fold_vectors(from + i, m, C(0), squared, fold::kPlus, mean);
            });
          };
          add([mean](const auto& v) {
            const auto d = v - mean;
            return d * d;
          });
          const double columns = static_cast<double>(n);
          const C scale = rescue_scale(static_cast<C>(square), static_cast<C>(n), static_cast<C>(call.eps));
          if (scale != 1) [[unlikely]] {
            square = 0;
            add([mean, scale](const auto& v) {
              const auto d = (v - mean) * scale;
              return d * d;
            });
          }
          const C rstd = static_cast<C>(scale / std::sqrt(square / columns + call.eps * scale * scale));
          if constexpr (kCentered) means[row] = mean;
          rstds[row] = rstd;
          for_blocks(n, [&](std::int64_t i, int m) {
            const C *w = weight.from(i, constants.ones), *b = bias.from(i, constants.zeros);
            normalize<kCentered>(from + i, w, b, m, mean, rstd, y + row * n + i, streams);
          });
        }
        if (streams) simd::fence();
      });
}

// Of one block: adds to the sums of g w and g w xhat, and to the columns' sums of g xhat and g. Here and below fma() stands
// wherever a compiler might put it, so that the same numbers come out whatever the types of g and x are.
template <bool kCentered, class T, class L, class C>
void add_block(const L* g, const T* x, const C* w, int n, C mean, C rstd, double& sum, double& dot, C* dw,
               C* db) {
  using V = simd::FixedVector<C>;
  V sums(C(0)), dots(C(0));
  const auto step = [&](int j, auto... first) {
    V xs(mean);
    if constexpr (sizeof...(first) == 0)
      xs = V::load(x + j);
    else
      xs = V::load(x + j, first..., mean);
    const V gs = V::load(g + j, first...), ws = V::load(w + j, first...);
    const V hat = (xs - mean) * rstd, scaled = gs * ws;
    sums = fma(gs, ws, sums);
    dots = fma(scaled, hat, dots);
    if (dw) fma(gs, hat, V::load(dw + j, first...)).store(dw + j, first...);
    if (kCentered && db) (V::load(db + j, first...) + gs).store(db + j, first...);
  };
  int j = 0;
  for (; j + V::kSize <= n; j += V::kSize) step(j);
  if (j < n) step(j, V::first(n - j));
  sum += sums.across(fold::kPlus);
  dot += dots.across(fold::kPlus);
}

// Of one block: dx = (g w - average - xhat slope) rstd + more, in up to two types.
template <class T, class L, class C>
void gradient_block(const L* g, const T* x, const C* w, const T* more, int n, C mean, C rstd, C average,
                    C slope, T* dx, L* low_dx, bool streams) {
  using V = simd::FixedVector<C>;
  const auto of = [&](std::int64_t j, auto... first) {
    const V hat = (V::load(x + j, first...) - mean) * rstd;
    const V scaled = fma(V::load(g + j, first...), V::load(w + j, first...), V(-average));
    const V d = fma(hat, V(-slope), scaled);
    V rest(C(0));  // added in any case, so that the result is rounded alike
    if (more) rest = V::load(more + j, first...);
    return fma(d, V(rstd), rest);
  };
  simd::for_pairs<V>(
      0, n,
      [&](std::int64_t j) {
        const V a = of(j), b = of(j + V::kSize);
        if (dx) simd::store_two(a, b, dx + j, streams);
        if (low_dx) V::store_two(a, b, low_dx + j);
      },
      [&](std::int64_t j, auto first) {
        const V v = of(j, first);
        if (dx) v.store(dx + j, first);
        if (low_dx) v.store(low_dx + j, first);
      });
}

// out (+)= the sum over the chunks of partial[chunk * stride + j].
template <class T>
void add_chunks(const compute_t<T>* partial, std::int64_t chunks, std::int64_t stride, std::int64_t n,
                bool accumulate, T* out) {
  using C = compute_t<T>;
  parallel_for(n, 4 * kBlock, [&](std::int64_t begin, std::int64_t end) {
    C sum[kBlock];
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const int m = static_cast<int>(std::min<std::int64_t>(kBlock, end - i));
      std::fill_n(sum, m, C(0));
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
        for (int j = 0; j < m; ++j) sum[j] += partial[chunk * stride + i + j];
      store_block<T, C>(out + i, 0, sum, m, accumulate);
    }
  });
}

template <bool kCentered, class T, class L>
void backward_rows(const BackwardCall& call) {
  using C = compute_t<T>;
  static const Constants<C> constants;
  const std::int64_t n = call.layout.columns, rows = call.layout.rows;
  const Parameter<T> weight(call.weight);
  const T *x = elements<T>(call.x), *extra = elements<T>(call.extra);
  const L* g = elements<L>(call.g);
  const C *means = elements<C>(call.mean), *rstds = elements<C>(call.rstd);
  T* dx = results<T>(call.dx);
  L* low_dx = results<L>(call.low_dx);
  const std::int64_t grain = std::max<std::int64_t>({1, kGrain / n, (rows + kChunks - 1) / kChunks});
  const bool streams = dx && simd::streams_rows(dx, rows, n, 2);
  const bool sums = call.dweight.defined() || call.dbias.defined();
  const std::int64_t chunks = chunk_count(rows, grain),
                     width = (n + 63) / 64 * 64 + 48;  // off the powers of two, at which stores hold up loads
  Tensor partials;
  if (sums) partials = Tensor::allocate({chunks, 2, width}, dtype_of<C>, cpu);
  parallel_chunks(rows, grain, [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
    C *dw = nullptr, *db = nullptr;
    if (sums) {
      C* partial = partials.data<C>() + chunk * 2 * width;
      std::fill_n(partial, 2 * width, C(0));
      if (call.dweight.defined()) dw = partial;
      if (call.dbias.defined()) db = partial + width;
    }
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * n;
      const C mean = kCentered ? means[row] : C(0);
      const C rstd = kCentered && n == 1 ? C(0) : rstds[row];  // a row of one element has no slope
      double sum = 0, dot = 0;
      for_blocks(n, [&](std::int64_t i, int m) {
        add_block<kCentered>(g + at + i, x + at + i, weight.from(i, constants.ones), m, mean, rstd, sum, dot,
                             dw ? dw + i : nullptr, db ? db + i : nullptr);
      });
      if (!dx && !low_dx) continue;
      const C average = kCentered ? static_cast<C>(sum / static_cast<double>(n)) : C(0);
      const C slope = static_cast<C>(dot / static_cast<double>(n));
      for_blocks(n, [&](std::int64_t i, int m) {
        gradient_block(g + at + i, x + at + i, weight.from(i, constants.ones),
                       extra ? extra + at + i : nullptr, m, mean, rstd, average, slope,
                       dx ? dx + at + i : nullptr, low_dx ? low_dx + at + i : nullptr, streams);
      });
    }
  });
  if (call.dweight.defined())
    add_chunks<T>(partials.data<C>(), chunks, 2 * width, n, call.accumulate_weight, results<T>(call.dweight));
  if (call.dbias.defined())
    add_chunks<T>(partials.data<C>() + width, chunks, 2 * width, n, call.accumulate_bias,
                  results<T>(call.dbias));
}

template <bool kCentered, bool kAdd>
void forward_cpu(const Forward& f) {
  const ForwardCall call(f, {kCentered, kAdd});
  if (!call.work) return;
  visit_types<kAdd>(call.op, call.x.dtype(), call.y.dtype(),
                    [&]<class T, class L>(TypeTag<T>, TypeTag<L>) { forward_rows<kCentered, T, L>(call); });
}

template <bool kCentered, bool kAdd>
void backward_cpu(const Backward& b) {
  const BackwardCall call(b, {kCentered, kAdd});
  if (!call.work) return;
  visit_types<kAdd>(call.op, call.x.dtype(), call.g.dtype(),
                    [&]<class T, class L>(TypeTag<T>, TypeTag<L>) { backward_rows<kCentered, T, L>(call); });
  call.finish(b);
}

}  // namespace ct::norms
