#pragma once

#include <cotangent/ops/convolution/convolution_internal.h>

// A convolution and its gradients in the plainest way. README.md derives them.

namespace ct::plain {

/// Calls f(x's element, weight's, y's) for every product that a convolution sums up.
template <class F>
void each_product(const convolution::Geometry& g, const F& f) {
  const std::int64_t channels = g.group_channels(), filters = g.group_filters();
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t o = 0; o < g.filters; ++o)
      for (std::int64_t p = 0; p < g.height.out; ++p)
        for (std::int64_t q = 0; q < g.width.out; ++q)
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t i = 0; i < g.height.kernel; ++i)
              for (std::int64_t j = 0; j < g.width.kernel; ++j) {
                const std::int64_t row = p * g.height.stride + i * g.height.dilation - g.height.padding;
                const std::int64_t column = q * g.width.stride + j * g.width.dilation - g.width.padding;
                if (row < 0 || row >= g.height.in || column < 0 || column >= g.width.in) continue;
                const std::int64_t channel = o / filters * channels + c;
                f(((n * g.channels + channel) * g.height.in + row) * g.width.in + column,
                  ((o * channels + c) * g.height.kernel + i) * g.width.kernel + j,
                  ((n * g.filters + o) * g.height.out + p) * g.width.out + q);
              }
}

/// y = sum x w
inline void convolve(const convolution::Geometry& g, const double* x, const double* w, double* y) {
  each_product(g, [&](std::int64_t a, std::int64_t b, std::int64_t c) { y[c] += x[a] * w[b]; });
}
/// dx = sum g w
inline void input_gradient(const convolution::Geometry& g, double* dx, const double* w, const double* dy) {
  each_product(g, [&](std::int64_t a, std::int64_t b, std::int64_t c) { dx[a] += dy[c] * w[b]; });
}
/// dw = sum g x
inline void weight_gradient(const convolution::Geometry& g, const double* x, double* dw, const double* dy) {
  each_product(g, [&](std::int64_t a, std::int64_t b, std::int64_t c) { dw[b] += dy[c] * x[a]; });
}

}  // namespace ct::plain
