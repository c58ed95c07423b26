#pragma once

#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/tensor/tensor.h>

// The first kernel: chapter 9 reads it, chapter 9b times it.

namespace book {

/// y = x / (1 + |x|): thread i for element i.
__global__ void softsign(const float* x, float* y, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / (1 + fabsf(x[i]));
}

/// The launch: as many blocks of 256 threads as n numbers need.
inline void run_softsign(const ct::Tensor& x, ct::Tensor& y) {
  ct::gpu::launch("softsign", softsign, ct::gpu::blocks_for("softsign", x.numel(), 256), 256, 0,
                  x.data<float>(), y.data<float>(), x.numel());
}

}  // namespace book
