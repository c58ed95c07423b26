#pragma once

#include <cmath>
#include <vector>

#include <cotangent/ops/convolution/pooling_internal.h>

// Pools of one image and their gradients in the plainest way: window by window. README.md derives them.

namespace ct::plain {

/// Calls f(window, element) for all elements of all windows.
template <class F>
void each_pair(const convolution::pooling::Windows& w, const F& f) {
  for (int p = 0; p < w.height.out; ++p)
    for (int q = 0; q < w.width.out; ++q)
      for (int i = w.height.begin(p); i < w.height.end(p); i += w.height.dilation)
        for (int j = w.width.begin(q); j < w.width.end(q); j += w.width.dilation)
          if (i >= 0 && i < w.height.in && j >= 0 && j < w.width.in)
            f(p * w.width.out + q, i * w.width.in + j);
}

/// y = max x, and where it is
inline void max_pool(const convolution::pooling::Windows& w, const double* x, double* y,
                     std::int64_t* index) {
  for (int window = 0; window < w.out_pixels(); ++window) y[window] = -INFINITY, index[window] = -1;
  each_pair(w, [&](int window, int a) {
    if (index[window] < 0 || x[a] > y[window] || std::isnan(x[a])) y[window] = x[a], index[window] = a;
  });
}
/// The share of each element in the mean of a window.
inline double mean_share(const convolution::pooling::Windows& w, int window) {
  return 1.0 / static_cast<double>(w.divisor(window / w.width.out, window % w.width.out));
}
/// Calls f(window, element, share) for all elements that have a share in a window's result: the one of `index`, where there is
/// one, or without indices all of the window.
template <class F>
void each_share(const convolution::pooling::Windows& w, const std::int64_t* index, const F& f) {
  if (!index) {
    std::vector<double> shares;
    for (int window = 0; window < w.out_pixels(); ++window) shares.push_back(mean_share(w, window));
    return each_pair(w, [&](int window, int a) { f(window, a, shares[static_cast<std::size_t>(window)]); });
  }
  for (int window = 0; window < w.out_pixels(); ++window)
    if (index[window] >= 0) f(window, static_cast<int>(index[window]), 1.0);
}
/// y = x[index], or the mean of x without one
inline void pool(const convolution::pooling::Windows& w, const double* x, const std::int64_t* index,
                 double* y) {
  for (int window = 0; window < w.out_pixels(); ++window) y[window] = 0;
  each_share(w, index, [&](int window, int a, double share) { y[window] += x[a] * share; });
}
/// dx: each window gives its cotangent to the element it chose, or in equal shares to all
inline void pool_gradient(const convolution::pooling::Windows& w, const double* g, const std::int64_t* index,
                          double* dx) {
  for (int a = 0; a < w.in_pixels(); ++a) dx[a] = 0;
  each_share(w, index, [&](int window, int a, double share) { dx[a] += g[window] * share; });
}

}  // namespace ct::plain
