#include <algorithm>
#include <vector>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/simd/copy.h>
#include <cotangent/core/simd/shuffle.h>
#include <cotangent/ops/convolution/pooling_internal.h>

// Image by image. A row of a pool is made a vector of windows at a time, of one place of theirs after the other; windows of
// adaptive pools differ in size and are taken one by one. Gradients go from windows to elements, in the order of the
// windows: an image has one thread.

namespace ct::convolution::pooling {
namespace {

constexpr std::int64_t kElements = 1 << 12;  // for one thread

// Calls f(values, element, begin, end) for the places of `count` windows of row p, from q on, one after the other: lanes
// [begin, end) are elements of the image, lane l would be element + l * stride, and the other values are 0.
template <class V, class T, class F>
void each_place(const Windows& w, int p, int q, int count, const T* x, const F& f) {
  const Axis& width = w.width;
  const int bottom = std::min(w.height.end(p), w.height.in), stride = width.stride;
  for (int i = w.height.begin(p); i < bottom; i += w.height.dilation) {
    if (i < 0) continue;
    for (int j = 0; j < width.kernel; ++j) {
      const int column = width.begin(q) + j * width.dilation;
      const int begin = column < 0 ? (stride - 1 - column) / stride : 0;
      int end = count;
      if (column + (count - 1) * stride >= width.in)
        end = column < width.in ? (width.in - 1 - column) / stride + 1 : 0;
      if (begin >= end) continue;
      const int element = i * width.in + column;
      V values = simd::load_apart<V>(x + element + begin * stride, stride, end - begin);
      if (begin > 0) {
        typename V::Scalar lanes[2 * V::kSize] = {};
        values.store(lanes + begin);
        values = V::load(lanes);
      }
      f(values, element, begin, end);
    }
  }
}

template <class T>
struct Image {
  using C = compute_t<T>;
  using V = simd::Vector<C>;
  using Places = simd::Vector<std::conditional_t<sizeof(C) == 8, std::int64_t, std::int32_t>>;
  const Windows& w;
  std::vector<C> sums = std::vector<C>(static_cast<std::size_t>(std::is_same_v<T, C> ? 0 : w.in_pixels()));

  template <class F>
  void each_window(const F& f) const {
    for (int p = 0, window = 0; p < w.height.out; ++p)
      for (int q = 0; q < w.width.out; ++q, ++window) f(p, q, window);
  }
  // Calls f(p, q, count, window) for rows of windows, a vector at a time.
  template <class F>
  void each_vector(const F& f) const {
    for (int p = 0; p < w.height.out; ++p)
      for (int q = 0; q < w.width.out; q += V::kSize)
        f(p, q, std::min(V::kSize, w.width.out - q), p * w.width.out + q);
  }

  void largest_of(const T* x, T* y, std::int64_t* index) {
    if (w.width.adaptive)
      return each_window([&](int p, int q, int window) {
        y[window] = static_cast<T>(largest<C>(
            w, p, q, [x](int i) { return static_cast<C>(x[i]); }, index[window]));
      });
    Places ramp(0);
    for (int l = 0; l < V::kSize; ++l) ramp.v[l] = l;
    each_vector([&](int p, int q, int count, int window) {
      using Mask = typename V::Mask;
      V best(-static_cast<C>(INFINITY));
      Places place(-1);
      each_place<V>(w, p, q, count, x, [&](V values, int element, int begin, int end) {
        const Mask inside{(ramp.v >= begin) & (ramp.v < end)};
        const Mask wins = inside & (Mask{place.v < 0} | (values > best) | (values != values));
        best = where(wins, values, best);
        place = where(typename Places::Mask{wins.v}, ramp * w.width.stride + Places(element), place);
      });
      best.store(y + window, V::first(count));
      for (int l = 0; l < count; ++l) index[window + l] = place.v[l];
    });
  }

  void pooled_of(const T* x, const std::int64_t* index, T* y) {
    if (index || w.width.adaptive)
      return each_window([&](int p, int q, int window) {
        y[window] = static_cast<T>(pooled<C>(
            w, p, q, [x](int i) { return static_cast<C>(x[i]); }, index));
      });
    each_vector([&](int p, int q, int count, int window) {
      V sum(0);
      each_place<V>(w, p, q, count, x, [&](V values, int, int, int) { sum += values; });
      for (int l = 0; l < count; ++l)
        y[window + l] = static_cast<T>(sum.v[l] / static_cast<C>(w.divisor(p, q + l)));
    });
  }

  void gradient_of(const T* g, const std::int64_t* index, T* dx) {
    C* sum;
    if constexpr (std::is_same_v<T, C>)
      sum = dx;
    else
      sum = sums.data();
    std::fill_n(sum, w.in_pixels(), C(0));
    if (index) {
      for (int window = 0; window < w.out_pixels(); ++window)
        if (index[window] >= 0) sum[index[window]] += static_cast<C>(g[window]);
    } else {
      each_window([&](int p, int q, int window) {
        const C share = static_cast<C>(g[window]) / static_cast<C>(w.divisor(p, q));
        each_element(w, p, q, [&](int element) { sum[element] += share; });
      });
    }
    if constexpr (!std::is_same_v<T, C>) simd::convert_run(sum, w.in_pixels(), dx);
  }
};

void run_cpu(Work work, const Windows& w, const Tensor& from, const Tensor& indices, const Tensor& to) {
  const bool back = work == Work::gathered;
  const int in = back ? w.out_pixels() : w.in_pixels(), out = back ? w.in_pixels() : w.out_pixels();
  visit_fast("pool2d", to.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(to.numel() / out, 1 + kElements / out, [&](std::int64_t begin, std::int64_t end) {
      Image<T> image{w};
      for (std::int64_t n = begin; n < end; ++n) {
        const T* const x = static_cast<const T*>(from.raw_data()) + n * in;
        T* const y = static_cast<T*>(to.raw_data()) + n * out;
        std::int64_t* const index =
            indices.defined() ? indices.data<std::int64_t>() + n * w.out_pixels() : nullptr;
        if (work == Work::largest) {
          image.largest_of(x, y, index);
        } else if (work == Work::pooled) {
          image.pooled_of(x, index, y);
        } else {
          image.gradient_of(x, index, y);
        }
      }
    });
  });
}

}  // namespace
}  // namespace ct::convolution::pooling

CT_KERNELS(cpu, pooling, CT_POOLING_KERNELS(convolution::pooling::run_cpu))
