#pragma once

#include <cotangent/ops/convolution/upsample_internal.h>

// An image resized and its gradient in the plainest way. upsample.md derives them.

namespace ct::plain {

/// Calls f(element of x, its share) for those, one or two, that element p of y looks at.
template <class F>
void each_share(const convolution::resizing::Axis& axis, int p, const F& f) {
  const convolution::resizing::Source s = axis.source(p);
  f(s.low, 1 - s.share);
  if (s.share > 0) f(s.low + 1, s.share);
}
/// Calls f(pixel of y, pixel of x, its share).
template <class F>
void each_share(const convolution::resizing::Grid& grid, const F& f) {
  for (int p = 0; p < grid.height.out; ++p)
    for (int q = 0; q < grid.width.out; ++q)
      each_share(grid.height, p, [&](int i, double row) {
        each_share(grid.width, q, [&](int j, double column) {
          f(p * grid.width.out + q, i * grid.width.in + j, row * column);
        });
      });
}

/// y = sum s x
inline void resize(const convolution::resizing::Grid& grid, const double* x, double* y) {
  for (int p = 0; p < grid.out_pixels(); ++p) y[p] = 0;
  each_share(grid, [&](int p, int a, double share) { y[p] += share * x[a]; });
}
/// dx = sum s g
inline void resize_gradient(const convolution::resizing::Grid& grid, const double* g, double* dx) {
  for (int a = 0; a < grid.in_pixels(); ++a) dx[a] = 0;
  each_share(grid, [&](int p, int a, double share) { dx[a] += share * g[p]; });
}

}  // namespace ct::plain
