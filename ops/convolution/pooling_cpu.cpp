#include <algorithm>
#include <vector>

#include <cotangent/core/parallel.h>
#include <cotangent/ops/convolution/pooling_internal.h>

// Image by image. A row of a pool is made of one place of its windows after the other, in loops that vectorise; windows of
// adaptive pools differ in size and are taken one by one. Gradients go from windows to elements, in the order of the
// windows: an image has one thread.

namespace ct::pooling {
namespace {

constexpr std::int64_t kElements = 1 << 12;  // for one thread

// Calls f(q, end, element) for the elements of windows q .. end of row p that lie in the image, one place of the windows
// after the other: that of window q is `element`, those of the next are w.width.stride apart.
template <class F>
void each_place(const Windows& w, int p, const F& f) {
  const Axis& width = w.width;
  const int bottom = std::min(w.height.end(p), w.height.in);
  for (int i = w.height.begin(p); i < bottom; i += w.height.dilation) {
    if (i < 0) continue;
    for (int j = 0; j < width.kernel; ++j) {
      const int column = j * width.dilation - width.padding;  // of window 0
      const int q = column < 0 ? (width.stride - 1 - column) / width.stride : 0;
      const int end = column < width.in ? std::min((width.in - 1 - column) / width.stride + 1, width.out) : 0;
      if (q < end) f(q, end, i * width.in + column + q * width.stride);
    }
  }
}

template <class T>
struct Image {
  using C = compute_t<T>;
  const Windows& w;
  std::vector<C> values = std::vector<C>(static_cast<std::size_t>(std::max(w.width.out, w.in_pixels())));
  std::vector<int> places = std::vector<int>(static_cast<std::size_t>(w.width.out));

  void largest_of(const T* x, T* y, std::int64_t* index) {
    C* const best = values.data();
    int* const place = places.data();
    for (int p = 0; p < w.height.out; ++p, y += w.width.out, index += w.width.out) {
      if (w.width.adaptive) {
        for (int q = 0; q < w.width.out; ++q)
          y[q] = static_cast<T>(largest<C>(
              w, p, q, [x](int i) { return static_cast<C>(x[i]); }, index[q]));
        continue;
      }
      std::fill_n(best, w.width.out, -static_cast<C>(INFINITY));
      std::fill_n(place, w.width.out, -1);
      each_place(w, p, [&](int q, int end, int element) {
        for (int step = w.width.stride; q < end; ++q, element += step) {
          const C value = static_cast<C>(x[element]);
          const bool wins = (place[q] < 0) | (value > best[q]) | (value != value);
          best[q] = wins ? value : best[q];
          place[q] = wins ? element : place[q];
        }
      });
      for (int q = 0; q < w.width.out; ++q) y[q] = static_cast<T>(best[q]), index[q] = place[q];
    }
  }

  void pooled_of(const T* x, const std::int64_t* index, T* y) {
    C* const sum = values.data();
    for (int p = 0; p < w.height.out; ++p, y += w.width.out) {
      if (index || w.width.adaptive) {
        for (int q = 0; q < w.width.out; ++q)
          y[q] = static_cast<T>(pooled<C>(
              w, p, q, [x](int i) { return static_cast<C>(x[i]); }, index));
        continue;
      }
      std::fill_n(sum, w.width.out, C(0));
      each_place(w, p, [&](int q, int end, int element) {
        for (int step = w.width.stride; q < end; ++q, element += step) sum[q] += static_cast<C>(x[element]);
      });
      for (int q = 0; q < w.width.out; ++q) y[q] = static_cast<T>(sum[q] / static_cast<C>(w.divisor(p, q)));
    }
  }

  void gradient_of(const T* g, const std::int64_t* index, T* dx) {
    C* const sum = values.data();
    std::fill_n(sum, w.in_pixels(), C(0));
    for (int p = 0, window = 0; p < w.height.out; ++p)
      for (int q = 0; q < w.width.out; ++q, ++window) {
        if (!index) {
          const C share = static_cast<C>(g[window]) / static_cast<C>(w.divisor(p, q));
          each_element(w, p, q, [&](int element) { sum[element] += share; });
        } else if (index[window] >= 0) {
          sum[index[window]] += static_cast<C>(g[window]);
        }
      }
    std::transform(sum, sum + w.in_pixels(), dx, [](C value) { return static_cast<T>(value); });
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
}  // namespace ct::pooling

CT_KERNELS(cpu, pooling, CT_POOLING_KERNELS(pooling::run_cpu))
