#pragma once

#include <cstdint>

#include <cotangent/core/base/export.h>
#include <cotangent/core/op/op_def.h>
#include <cotangent/ops/convolution/window.h>

// Places that the pixels of a resized image read, and the formula of an element of it, or of its gradient: written once for
// both devices.

namespace ct::convolution::resizing {

struct Attrs {
  Size2d size = 1;                             // of the result
  Size2d image = 0;                            // of upsample2d_gradient: the size of the image
  double factor_height = 0, factor_width = 0;  // 0 where the sizes tell it
  bool linear = false;
  bool align_corners = false;
};

/// Source of an element of the result: element `low`, and by the share also the next, which exists where the share is above 0.
struct Source {
  int low;
  double share;
};

struct Axis {
  int in, out;
  double factor;  // 0: out / in
  bool linear, align;

  CT_HD Source source(int p) const {
    if (!linear) {
      const long long at =
          factor > 0 ? static_cast<long long>(p / factor) : static_cast<long long>(p) * in / out;
      return {at < in ? static_cast<int>(at) : in - 1, 0};
    }
    double at;
    if (align) {
      at = out > 1 ? static_cast<double>(p) * (in - 1) / (out - 1) : 0;
    } else {
      at = (p + 0.5) * (factor > 0 ? 1 / factor : static_cast<double>(in) / out) - 0.5;
      if (at < 0) at = 0;
    }
    if (at >= in - 1) return {in - 1, 0};
    return {static_cast<int>(at), at - static_cast<int>(at)};
  }
  /// The first element of the result that looks at a or beyond.
  CT_HD int first(int a) const {
    if (a <= 0) return 0;
    if (a >= in) return out;
    const double guess = align ? static_cast<double>(a) * (out - 1) / (in - 1)
                               : a * (factor > 0 ? factor : static_cast<double>(out) / in);
    int p = guess < out ? static_cast<int>(guess) : out;
    while (p < out && source(p).low < a) ++p;
    while (p > 0 && source(p - 1).low >= a) --p;
    return p;
  }
  /// Results that element a has a share in: among [begin(a), end(a)).
  CT_HD int begin(int a) const { return first(linear ? a - 1 : a); }
  CT_HD int end(int a) const { return first(a + 1); }
  /// The share of element a in element p of the result.
  CT_HD double share(int p, int a) const {
    const Source s = source(p);
    return s.low == a ? 1 - s.share : s.low + 1 == a ? s.share : 0;
  }
};

struct Grid {
  Axis height, width;

  Grid(const Attrs& a, const Shape& image, const Shape& result)
      : height{static_cast<int>(image[2]), static_cast<int>(result[2]), a.factor_height, a.linear,
               a.align_corners},
        width{static_cast<int>(image[3]), static_cast<int>(result[3]), a.factor_width, a.linear,
              a.align_corners} {}

  CT_HD int in_pixels() const { return height.in * width.in; }
  CT_HD int out_pixels() const { return height.out * width.out; }
};

/// An element of the result that looks at these places of x.
template <class C, class Read>
CT_HD C resized(const Grid& grid, const Source& row, const Source& column, const Read& x) {
  const auto line = [&](int i) {
    const int at = i * grid.width.in + column.low;
    if (column.share <= 0) return static_cast<C>(x(at));
    const C share = static_cast<C>(column.share);
    return (1 - share) * x(at) + share * x(at + 1);
  };
  if (row.share <= 0) return line(row.low);
  const C share = static_cast<C>(row.share);
  return (1 - share) * line(row.low) + share * line(row.low + 1);
}

/// The gradient of element (i, j) of x: its shares of those elements of the result in rows [p, p_end) and columns [q, q_end).
template <class C, class Read>
CT_HD C gathered(const Grid& grid, int i, int j, int p, int p_end, int q, int q_end, const Read& g) {
  C sum = 0;
  for (; p < p_end; ++p)
    for (int k = q; k < q_end; ++k) {
      const C value = g(p * grid.width.out + k);
      sum += grid.height.linear ? static_cast<C>(grid.height.share(p, i) * grid.width.share(k, j)) * value
                                : value;
    }
  return sum;
}

/// Writes the result's images to `to`, or back: their gradients, gathered. All contiguous.
using Run = void (*)(bool back, const Grid& grid, const Tensor& from, const Tensor& to);

void image_to_result(const Tensor& from, const Tensor& to, const Attrs& a, Run run);
void result_to_image(const Tensor& from, const Tensor& to, const Attrs& a, Run run);

template <Run run>
struct KernelsOf {
  static void forward(const Forward& f) { image_to_result(f.in(0), f.out(), f.attrs<Attrs>(), run); }
  static void backward(const Backward& b) {
    if (b.needs(0)) result_to_image(b.grad(), b.grad_in(0), b.attrs<Attrs>(), run);
  }
  static void gradient_forward(const Forward& f) { result_to_image(f.in(0), f.out(), f.attrs<Attrs>(), run); }
  static void gradient_backward(const Backward& b) {
    if (b.needs(0)) image_to_result(b.grad(), b.grad_in(0), b.attrs<Attrs>(), run);
  }
};

}  // namespace ct::convolution::resizing

/// The entries of a device's table of kernels (CT_KERNELS), made of what does the work.
#define CT_RESIZING_KERNELS(run)                                                    \
  {"upsample2d", convolution::resizing::KernelsOf<run>::forward,                    \
   convolution::resizing::KernelsOf<run>::backward},                                \
  {                                                                                 \
    "upsample2d_gradient", convolution::resizing::KernelsOf<run>::gradient_forward, \
        convolution::resizing::KernelsOf<run>::gradient_backward                    \
  }
