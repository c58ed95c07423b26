#pragma once

#include <algorithm>
#include <cmath>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/stream.h>
#include <cotangent/ops/engine/rows/fold_vectors_cpu.h>
#include <cotangent/ops/engine/rows/record.h>
#include <cotangent/ops/engine/rows/rows_cpu.h>
#include <cotangent/ops/normalization/normalization_internal.h>

// layer_norm and rms_norm on the CPU. A row is worked on in the cache, in whole vectors: its mean, its
// variance around the mean, the result. Rows of 16 bits are widened first and rounded once.
//
// Backward goes over a row twice: the two sums that dx needs, together with the row's share of dweight and
// dbias, and then dx. Those shares are collected per chunk of rows, kChunks at most (normalization_cpu.cpp), and
// added up in their order.

namespace ct::normalization {

using rows::for_blocks, rows::kBlock, rows::load_block, rows::store_block;

/// A weight or bias in the type of the arithmetic; where there is none, `otherwise` everywhere.
class Parameter {
 public:
  Parameter(const Tensor& t, float otherwise);
  /// Elements from i on, kBlock at most.
  const float* from(std::int64_t i) const { return data_ ? data_ + i : constants_; }

 private:
  Tensor held_;
  const float *data_ = nullptr, *constants_;
};

/// Operands of the kernels of rows beside the tensors of a call.
struct Parameters {
  Parameter weight, bias;
  bool streams;  // results of f32 go past the caches
};
/// Rows [begin, end) in f32, for any types T and L. Of the columns' sums for dweight and dbias those are wanted that are not
/// null.
using ForwardKernel = void (*)(const ForwardCall& call, const Parameters& p, std::int64_t begin,
                               std::int64_t end);
using BackwardKernel = void (*)(const BackwardCall& call, const Parameters& p, std::int64_t begin,
                                std::int64_t end, float* dw, float* db);
/// All rows of a call by threads.
void run_rows(const ForwardCall& call, ForwardKernel kernel);
void run_rows(const BackwardCall& call, BackwardKernel kernel);

/// The elements of a tensor, null where it is undefined.
template <class T>
T* elements(const Tensor& t) {
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
void forward_rows(const ForwardCall& call, const Parameters& p, std::int64_t begin, std::int64_t end) {
  using C = float;
  const std::int64_t n = call.layout.columns;
  const T *x = elements<T>(call.x), *residual = elements<T>(call.residual);
  const L* low_residual = elements<L>(call.low_residual);
  L* y = elements<L>(call.y);
  T* sums = elements<T>(call.sum);
  C *means = elements<C>(call.mean), *rstds = elements<C>(call.rstd);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* from = x + row * n;
    if (residual) add_row(from, residual + row * n, sums + row * n, n);
    if (low_residual) add_row(from, low_residual + row * n, sums + row * n, n);
    if (sums) from = sums + row * n;
    double total = 0, square = 0;
    // Summed around an element of the row: far from 0 the mean's rounding would count as spread.
    const C pivot = kCentered && n > 0 ? static_cast<C>(from[0]) : C(0);
    if constexpr (kCentered)
      for_blocks(n, [&](std::int64_t i, int m) {
        total += rows::fold_vectors(
            from + i, m, C(0), [pivot](const auto& v) { return v - pivot; }, rows::kPlus, pivot);
      });
    const C mean = static_cast<C>(static_cast<double>(pivot) + total / static_cast<double>(n));
    const auto add = [&](const auto& squared) {
      for_blocks(n, [&](std::int64_t i, int m) {
        square += rows::fold_vectors(from + i, m, C(0), squared, rows::kPlus, mean);
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
      normalize<kCentered>(from + i, p.weight.from(i), p.bias.from(i), m, mean, rstd, y + row * n + i,
                           p.streams);
    });
  }
  if (p.streams) simd::fence();
}

// Adds one block to the sums of g w and g w xhat, and to the columns' sums of g xhat and g. Here and below fma() stands
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
  sum += sums.across(rows::kPlus);
  dot += dots.across(rows::kPlus);
}

// Writes dx = (g w - average - xhat slope) rstd + more of one block as T (`dx`), as L (`low_dx`), or both; either may be null.
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

template <bool kCentered, class T, class L>
void backward_rows(const BackwardCall& call, const Parameters& p, std::int64_t begin, std::int64_t end,
                   float* dw, float* db) {
  using C = float;
  const std::int64_t n = call.layout.columns;
  const T *x = elements<T>(call.x), *extra = elements<T>(call.extra);
  const L* g = elements<L>(call.g);
  T* dx = elements<T>(call.dx);
  L* low_dx = elements<L>(call.low_dx);
  const C *means = elements<C>(call.mean), *rstds = elements<C>(call.rstd);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * n;
    const C mean = kCentered ? means[row] : C(0);
    const C rstd = kCentered && n == 1 ? C(0) : rstds[row];  // a row of one element has no slope
    double sum = 0, dot = 0;
    for_blocks(n, [&](std::int64_t i, int m) {
      add_block<kCentered>(g + at + i, x + at + i, p.weight.from(i), m, mean, rstd, sum, dot,
                           dw ? dw + i : nullptr, db ? db + i : nullptr);
    });
    if (!dx && !low_dx) continue;
    const C average = kCentered ? static_cast<C>(sum / static_cast<double>(n)) : C(0);
    const C slope = static_cast<C>(dot / static_cast<double>(n));
    for_blocks(n, [&](std::int64_t i, int m) {
      gradient_block(g + at + i, x + at + i, p.weight.from(i), extra ? extra + at + i : nullptr, m, mean,
                     rstd, average, slope, dx ? dx + at + i : nullptr, low_dx ? low_dx + at + i : nullptr,
                     p.streams);
    });
  }
}

template <bool kCentered, bool kAdd>
void forward_cpu(const Forward& f) {
  const ForwardCall call(f, {kCentered, kAdd});
  if (!call.work) return;
  visit_types<kAdd>(call.op, call.x.dtype(), call.y.dtype(), [&]<class T, class L>(TypeTag<T>, TypeTag<L>) {
    run_rows(call, forward_rows<kCentered, T, L>);
  });
}

/// Rows are by themselves, but for the parameters and their gradients.
template <bool kCentered, bool kAdd>
inline constexpr rows::RowRecord kRowRecord{
    [](AttrsView attrs, const Shape&) {
      return static_cast<int>(static_cast<const Attrs*>(attrs.data)->axes);
    },
    (kCentered ? 3u : 1u) << Kind{kCentered, kAdd}.weight()};

template <bool kCentered, bool kAdd>
void backward_cpu(const Backward& b) {
  const BackwardCall call(b, {kCentered, kAdd});
  if (!call.work) return;
  visit_types<kAdd>(call.op, call.x.dtype(), call.g.dtype(), [&]<class T, class L>(TypeTag<T>, TypeTag<L>) {
    run_rows(call, backward_rows<kCentered, T, L>);
  });
  call.finish(b);
}

}  // namespace ct::normalization
