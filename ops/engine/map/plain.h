#pragma once

#include <cmath>
#include <cstdint>

#include <cotangent/core/device/parallel.h>
#include <cotangent/core/tensor/tensor.h>

// Shared by the plain kernels of elements (NAME_plain.h). All tensors are f64, contiguous and on the CPU.

namespace ct::plain {

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline constexpr std::int64_t kElementGrain = 8192;  // elements for one thread

/// y_i = value_of(i), i the elements of y.
template <class F>
void each_element(const Tensor& y, const F& value_of) {
  double* out = y.data<double>();
  parallel_for(y.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = value_of(i);
  });
}

}  // namespace ct::plain
