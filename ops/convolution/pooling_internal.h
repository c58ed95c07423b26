#pragma once

#include <cmath>
#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/cuda/divider.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/convolution/window.h>

// Windows, and what an element of a pool, or of its gradient, is. The CPU takes these one by one for adaptive pools alone, and
// goes from windows to elements for gradients.

namespace ct::convolution::pooling {

struct Attrs {
  Size2d kernel = 1;  // of an adaptive pool: the size of the result
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  Size2d size = 0;  // of pool2d_gradient: that of the image
  bool adaptive = false;
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor_override = 0;
};

/// The windows along an axis.
struct Axis {
  int in, out, kernel, stride, padding, dilation;
  bool adaptive;
  gpu::Divider strides{static_cast<std::uint32_t>(stride)};

  /// Window p is [begin, end), padding included.
  CT_HD int begin(int p) const {
    return adaptive ? static_cast<int>(static_cast<long long>(p) * in / out) : p * stride - padding;
  }
  CT_HD int end(int p) const {
    if (adaptive) return static_cast<int>((static_cast<long long>(p + 1) * in + out - 1) / out);
    return begin(p) + dilation * (kernel - 1) + 1;
  }
  /// Windows that may hold element a: [first, last).
  CT_HD int first(int a) const {
    if (adaptive) return static_cast<int>(static_cast<long long>(a) * out / in);
    const int beyond =
        a + padding - dilation * (kernel - 1);  // of the first window that reaches it: where it begins
    return beyond <= 0 ? 0
                       : static_cast<int>(strides.divide(static_cast<std::uint32_t>(beyond + stride - 1)));
  }
  CT_HD int last(int a) const {
    const long long p = adaptive ? (static_cast<long long>(a + 1) * out + in - 1) / in
                                 : strides.divide(static_cast<std::uint32_t>(a + padding)) + 1LL;
    return p < out ? static_cast<int>(p) : out;
  }
};

struct Windows {
  Axis height, width;
  bool count_include_pad;
  long long divisor_override;

  /// Window of an image of so many rows and columns and its pool.
  Windows(const Attrs& a, const Shape& image, const Shape& pool)
      : height{narrow(image[-2 + image.size()]),
               narrow(pool[-2 + pool.size()]),
               narrow(a.kernel.height),
               narrow(a.stride.height),
               narrow(a.padding.height),
               narrow(a.dilation.height),
               a.adaptive},
        width{narrow(image[-1 + image.size()]),
              narrow(pool[-1 + pool.size()]),
              narrow(a.kernel.width),
              narrow(a.stride.width),
              narrow(a.padding.width),
              narrow(a.dilation.width),
              a.adaptive},
        count_include_pad(a.count_include_pad),
        divisor_override(a.divisor_override) {}

  CT_HD int in_pixels() const { return height.in * width.in; }
  CT_HD int out_pixels() const { return height.out * width.out; }

  /// Divisor of the sum of window (p, q).
  CT_HD long long divisor(int p, int q) const {
    if (divisor_override != 0) return divisor_override;
    const auto count = [&](const Axis& axis, int at) {
      const int pad = count_include_pad ? axis.padding : 0;
      const int from = axis.begin(at), to = axis.end(at);
      return static_cast<long long>((to < axis.in + pad ? to : axis.in + pad) - (from > -pad ? from : -pad));
    };
    return count(height, p) * count(width, q);
  }

 private:
  static int narrow(std::int64_t n) { return static_cast<int>(n); }
};

/// Calls f(element) for those of window (p, q) that lie in the image.
template <class F>
CT_HD void each_element(const Windows& w, int p, int q, const F& f) {
  const int bottom = w.height.end(p) < w.height.in ? w.height.end(p) : w.height.in;
  const int right = w.width.end(q) < w.width.in ? w.width.end(q) : w.width.in;
  for (int i = w.height.begin(p); i < bottom; i += w.height.dilation)
    for (int j = w.width.begin(q); j < right; j += w.width.dilation)
      if (i >= 0 && j >= 0) f(i * w.width.in + j);
}

/// The largest of window (p, q), and where it is.
template <class C, class Read>
CT_HD C largest(const Windows& w, int p, int q, const Read& x, std::int64_t& index) {
  C best = -static_cast<C>(INFINITY);
  int place = -1;
  each_element(w, p, q, [&](int at) {
    const C value = x(at);
    const bool wins =
        (place < 0) | (value > best) | (value != value);  // no branches, which could not be predicted
    best = wins ? value : best;
    place = wins ? at : place;
  });
  index = place;
  return best;
}

/// The mean of a window, or the element that is chosen in it.
template <class C, class Read>
CT_HD C pooled(const Windows& w, int p, int q, const Read& x, const std::int64_t* chosen) {
  if (chosen) {
    const std::int64_t at = chosen[p * w.width.out + q];
    return at < 0 ? C(0) : x(static_cast<int>(at));
  }
  C sum = 0;
  each_element(w, p, q, [&](int at) { sum += x(at); });
  return sum / static_cast<C>(w.divisor(p, q));
}

/// Work on each image.
enum class Work : std::uint8_t { largest, pooled, gathered };
/// `to` and `indices` are written, `from` and, in the other works, `indices` are read; all contiguous. Undefined indices
/// stand for a mean.
using Run = void (*)(Work work, const Windows& w, const Tensor& from, const Tensor& indices,
                     const Tensor& to);

void max_forward(const Forward& f, Run run);
void average_forward(const Forward& f, Run run);
void gradient_forward(const Forward& f, Run run);
void max_backward(const Backward& b, Run run);
void average_backward(const Backward& b, Run run);
void gradient_backward(const Backward& b, Run run);

template <Run run>
struct KernelsOf {
  template <void (*f)(const Forward&, Run)>
  static void forward(const Forward& call) {
    f(call, run);
  }
  template <void (*f)(const Backward&, Run)>
  static void backward(const Backward& call) {
    f(call, run);
  }
};

}  // namespace ct::convolution::pooling

/// The entries of a device's table of kernels (CT_KERNELS), made of what does the work.
#define CT_POOLING_KERNELS(run)                                                                            \
  {"max_pool2d", convolution::pooling::KernelsOf<run>::forward<convolution::pooling::max_forward>,         \
   convolution::pooling::KernelsOf<run>::backward<convolution::pooling::max_backward>},                    \
      {"avg_pool2d", convolution::pooling::KernelsOf<run>::forward<convolution::pooling::average_forward>, \
       convolution::pooling::KernelsOf<run>::backward<convolution::pooling::average_backward>},            \
  {                                                                                                        \
    "pool2d_gradient",                                                                                     \
        convolution::pooling::KernelsOf<run>::forward<convolution::pooling::gradient_forward>,             \
        convolution::pooling::KernelsOf<run>::backward<convolution::pooling::gradient_backward>            \
  }
