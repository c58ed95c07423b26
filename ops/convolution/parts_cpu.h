#pragma once

#include <algorithm>
#include <cstdint>

#include <cotangent/ops/convolution/convolution_internal.h>

// Shared by the CPU's algorithms of convolution: where the tensors' parts lie, and how much work is worth a thread.

namespace ct::convolution {

inline std::int64_t grain(double products) {
  constexpr double kTaskProducts = 1 << 18;
  return static_cast<std::int64_t>(std::clamp(kTaskProducts / std::max(products, 1.0), 1.0, 1e9));
}

template <class T>
struct Parts {
  using C = compute_t<T>;
  const Geometry& g;
  T *x, *w, *y;
  const T* bias;

  explicit Parts(const Job& job)
      : g(job.g),
        x(job.data<T>(Part::x)),
        w(job.data<T>(Part::weight)),
        y(job.data<T>(Part::y)),
        bias(job.bias ? static_cast<const T*>(job.bias->raw_data()) : nullptr) {}
  T* image(std::int64_t n, std::int64_t channel) const {
    return x + (n * g.channels + channel) * g.in_pixels();
  }
  T* filtered(std::int64_t n, std::int64_t filter) const {
    return y + (n * g.filters + filter) * g.out_pixels();
  }
  T* filter(std::int64_t o) const { return w + o * g.depth(); }
  C bias_of(std::int64_t channel) const { return bias ? static_cast<C>(bias[channel]) : C(0); }
};

}  // namespace ct::convolution
