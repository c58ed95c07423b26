#include <cmath>
#include <limits>

#include <cotangent/core/simd/stream.h>
#include <cotangent/ops/engine/rows/record.h>
#include <cotangent/ops/softmax/row_cpu.h>
#include <cotangent/ops/softmax/rows_internal.h>

// softmax and log_softmax on the CPU.
//
// Along the last axis a row is worked on where it lies in the cache: the largest element, then exp and the
// sum, then the scaling, all in whole vectors; a row of ten classes is one vector and not ten scalars. Along
// another axis up to 2048 neighbouring columns are done at once. 16-bit types are computed in float, widened as they are
// read, and rounded once.

namespace ct::softmax_impl {
namespace {

using rows::kColumns;
using Source = rows::Source<float>;  // of f32, f16 or bf16: columns are the same code for all
using Sink = rows::Sink<float>;

template <class T>
Source source_of(const T* x) {
  return {reinterpret_cast<const char*>(x), sizeof(T), rows::load_block<T, float>};
}
template <class T>
Sink sink_of(T* y) {
  return {y, rows::store_block<T, float>};
}

template <bool logarithm, class T>
void forward_rows(const T* x, T* y, std::int64_t count, std::int64_t n) {
  rows::for_rows(count, n, [&](std::int64_t begin, std::int64_t end) {
    rows::Work work(simd::is_16_bit<T> ? n : 0);
    for (std::int64_t row = begin; row < end; ++row)
      softmax_row<logarithm>(x + row * n, y + row * n, n, work.data());
  });
}

template <bool logarithm>
void forward_columns(const Source& x, const Sink& y, const Extents& e) {
  rows::for_tiles(e, [&](int columns, const auto& for_blocks) {
    float buffer[kBlock], out[kBlock], max[kColumns], scale[kColumns];
    double sum[kColumns];
    std::fill_n(max, columns, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, columns, 0.0);
    for_blocks([&](std::int64_t at, int first, int n) {
      const float* in = x.read(at, 1, n, buffer);
      float* highest = max + first;
      for (int j = 0; j < n; ++j) highest[j] = kMax(highest[j], in[j]);
    });
    for_blocks([&](std::int64_t at, int first, int n) {
      const float* in = x.read(at, 1, n, buffer);
      for (int j = 0; j < n; ++j) sum[first + j] += simd::exp_nonpositive(in[j] - max[first + j]);
    });
    for (int j = 0; j < columns; ++j)
      scale[j] = static_cast<float>(logarithm ? std::log(sum[j]) : 1 / sum[j]);
    for_blocks([&](std::int64_t at, int first, int n) {
      const float* in = x.read(at, 1, n, buffer);
      for (int j = 0; j < n; ++j) {
        const float v = in[j] - max[first + j];
        out[j] = logarithm ? v - scale[first + j] : simd::exp_nonpositive(v) * scale[first + j];
      }
      y.store(y.values, at, out, n, false);
    });
  });
}

// dx of one element; X is a float or a SIMD vector.
template <bool logarithm, class X>
CT_INLINE X gradient(X g, X y, float sum, float factor) {
  if constexpr (logarithm) return g - simd::exp_nonpositive(y) * sum;
  return y * (g - sum) * factor;
}

// A row of g and y is read twice: from memory for sum(g y), or sum(g) for log_softmax, and from the cache for dx.
template <bool logarithm, class T>
void backward_row(const T* g, const T* y, T* dx, std::int64_t n, float factor, bool streams) {
  using V = simd::FixedVector<float>;
  const auto term = [](V g, V y) { return logarithm ? g : g * y; };
  V g0, g1, y0, y1;
  double sum = 0;
  for (std::int64_t i = 0; i < n; i += kBlock) {
    V sums(0), others(0);
    simd::for_pairs<V>(
        i, std::min<std::int64_t>(n, i + kBlock),
        [&](std::int64_t k) {
          V::load_pair(g + k, g0, g1);
          if constexpr (!logarithm) V::load_pair(y + k, y0, y1);
          sums += term(g0, y0), others += term(g1, y1);
        },
        [&](std::int64_t k, auto first) { sums += term(V::load(g + k, first), V::load(y + k, first)); });
    sum += (sums + others).across(kPlus);
  }
  const float total = static_cast<float>(sum);
  const auto of = [&](V g, V y) { return gradient<logarithm>(g, y, total, factor); };
  simd::for_pairs<V>(
      0, n,
      [&](std::int64_t k) {
        V::load_pair(g + k, g0, g1);
        V::load_pair(y + k, y0, y1);
        const V a = of(g0, y0), b = of(g1, y1);
        streams ? simd::store_two(a, b, dx + k, true) : V::store_pair(a, b, dx + k);
      },
      [&](std::int64_t k, auto first) {
        of(V::load(g + k, first), V::load(y + k, first)).store(dx + k, first);
      });
}

template <bool logarithm, class T>
void backward_rows(const T* g, const T* y, T* dx, std::int64_t count, std::int64_t n, float factor = 1) {
  const bool streams = simd::streams_rows(dx, count, n, 2);
  rows::for_rows(count, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin * n; row < end * n; row += n)
      backward_row<logarithm>(g + row, y + row, dx + row, n, factor, streams);
    if (streams) simd::fence();
  });
}

template <bool logarithm>
void backward_columns(const Source& g, const Source& y, const Sink& dx, const Extents& e) {
  rows::for_tiles(e, [&](int columns, const auto& for_blocks) {
    float g_buffer[kBlock], y_buffer[kBlock], out[kBlock];
    double sum[kColumns];
    std::fill_n(sum, columns, 0.0);
    for_blocks([&](std::int64_t at, int first, int n) {
      const float* gs = g.read(at, 1, n, g_buffer);
      const float* ys = y.read(at, 1, n, y_buffer);
      for (int j = 0; j < n; ++j) sum[first + j] += logarithm ? gs[j] : gs[j] * ys[j];
    });
    for_blocks([&](std::int64_t at, int first, int n) {
      const float* gs = g.read(at, 1, n, g_buffer);
      const float* ys = y.read(at, 1, n, y_buffer);
      for (int j = 0; j < n; ++j)
        out[j] = gradient<logarithm>(gs[j], ys[j], static_cast<float>(sum[first + j]), 1);
      dx.store(dx.values, at, out, n, false);
    });
  });
}

}  // namespace

template <bool logarithm>
void forward_cpu(const Forward& f) {
  with_forward(f, []<class T>(const T* x, T* y, const Extents& e) {
    if (e.inner == 1) return forward_rows<logarithm>(x, y, e.outer, e.n);
    forward_columns<logarithm>(source_of(x), sink_of(y), e);
  });
}

template <bool logarithm>
void backward_cpu(const Backward& b) {
  with_backward(b, []<class T>(const T* g, const T* y, T* dx, const Extents& e) {
    if (e.inner == 1) return backward_rows<logarithm>(g, y, dx, e.outer, e.n);
    backward_columns<logarithm>(source_of(g), source_of(y), sink_of(dx), e);
  });
}

void gradient_cpu(const char* op, const Tensor& g, const Tensor& y, const Tensor& dx, double factor) {
  with_gradient(op, g, y, dx, -1, [&]<class T>(const T* from, const T* of, T* to, const Extents& e) {
    backward_rows<false>(from, of, to, e.outer, e.n, static_cast<float>(factor));
  });
}

namespace {
constexpr rows::RowRecord kLastAxis{[](AttrsView attrs, const Shape& x) {
  return extents("softmax", x, static_cast<const Attrs*>(attrs.data)->axis).inner == 1 ? 1 : 0;
}};
}  // namespace

}  // namespace ct::softmax_impl

CT_KERNELS(cpu, softmax, {"softmax", softmax_impl::forward_cpu<false>, softmax_impl::backward_cpu<false>},
           {"log_softmax", softmax_impl::forward_cpu<true>, softmax_impl::backward_cpu<true>},
           forward_only("softmax rows", hand_out<softmax_impl::kLastAxis>),
           forward_only("log_softmax rows", hand_out<softmax_impl::kLastAxis>))
