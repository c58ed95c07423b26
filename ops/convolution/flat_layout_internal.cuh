#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include <cotangent/ops/convolution/flat_internal.h>

// Images and filters in the order in which the flat kernels read them (flat.cu). Elements of 16 bits, not looked into.

namespace ct::convolution {

// [N, C, plane] to [N, plane, C], channels filled up with zeros to `padded`: 128 pixels of 64 channels. A thread reads
// eight pixels each of two neighbouring channels and stores them as pairs, so that shared memory is accessed in words of
// 32 bits, already turned.
inline constexpr int kLayoutPixels = 128;
static __global__ void __launch_bounds__(256)
    layout_kernel(const Word* __restrict__ from, Word* __restrict__ to, int plane, int channels, int padded,
                  int pixel_tiles) {
  __shared__ std::uint32_t tile[kLayoutPixels][kChannels / 2 + 1];
  const int thread = static_cast<int>(threadIdx.x), c0 = static_cast<int>(blockIdx.y) * kChannels;
  const long long n = blockIdx.x / static_cast<unsigned>(pixel_tiles);
  const int first = static_cast<int>(blockIdx.x % static_cast<unsigned>(pixel_tiles)) * kLayoutPixels;
  const bool vectors = plane % 8 == 0;
  union Eight {
    uint4 all;
    Word each[8];
  } in[2][2];
#pragma unroll
  for (int u = 0; u < 2; ++u)
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int pixel = first + thread % 16 * 8, c = c0 + (thread / 16 + 16 * u) * 2 + odd;
      const Word* const x = from + (n * channels + c) * plane + pixel;
      Eight& e = in[u][odd];
      e.all = {0, 0, 0, 0};
      if (vectors) {
        if (c < channels && pixel < plane) e.all = __ldcs(reinterpret_cast<const uint4*>(x));
      } else {
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if (c < channels && pixel + i < plane) e.each[i] = x[i];
      }
    }
#pragma unroll
  for (int u = 0; u < 2; ++u)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      tile[thread % 16 * 8 + i][thread / 16 + 16 * u] =
          in[u][0].each[i] | static_cast<std::uint32_t>(in[u][1].each[i]) << 16;
  __syncthreads();
#pragma unroll
  for (int i = thread; i < kLayoutPixels * 8; i += 256) {
    const int line = i / 8, chunk = i % 8;
    const std::uint32_t* const pairs = &tile[line][chunk * 4];
    if (first + line < plane && c0 + chunk * 8 < padded)
      *reinterpret_cast<uint4*>(to + (n * plane + first + line) * padded + c0 + chunk * 8) = {
          pairs[0], pairs[1], pairs[2], pairs[3]};
  }
}

// Filters as rows of one tap after the other: [taps, rows, padded depth], for x's gradient the last tap first.
static __global__ void __launch_bounds__(256)
    filters_kernel(const Word* __restrict__ w, Word* __restrict__ to, int taps, int rows, int depth,
                   int padded, long long row_stride, long long depth_stride, bool back) {
  const std::int64_t i = std::int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i >= std::int64_t{taps} * rows * padded) return;
  const int k = static_cast<int>(i % padded), row = static_cast<int>(i / padded % rows);
  const int tap = static_cast<int>(i / padded / rows);
  to[i] = k < depth ? w[row * row_stride + k * depth_stride + (back ? taps - 1 - tap : tap)] : Word(0);
}

}  // namespace ct::convolution
