#pragma once

#include <type_traits>

#include <cotangent/core/cuda/convert.h>
#include <cotangent/ops/convolution/flat_internal.h>
#include <cotangent/core/cuda/mma/hopper_ptx.cuh>

// Results of positions, brought by way of shared memory to where the pixels are, without the gaps.

namespace ct::convolution {

constexpr int kTile = 256, kHalf = 128,
              kPitch = kHalf + 8;  // positions; elements from row to row, of different banks
constexpr int kNowhere = 0xffff;   // for the place of what has no pixel
constexpr int kStagingBytes =
    kChannels * kPitch * 2 + kTile * 2;  // rows, and the places of positions in them

/// The sums of 64 filters, from f0 on, at positions [m, end), at most 256, as a warpgroup's products leave them, and
/// `bias`, rounded, to y, of which `width` pixels, 4 or 8, can be written at once. `barrier` is the warpgroup's alone.
template <class T>
__device__ __forceinline__ void store_tile(const float (&sums)[kTile / 2], Word* staging, const Flat& f,
                                           Word* __restrict__ y, const T* __restrict__ bias, int filters,
                                           int f0, int m, int end, int width, int barrier) {
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32,
            row = thread / 32 * 16 + lane / 4;
  Word* const places = staging + kChannels * kPitch;
  const auto first_pixel = [&](int half) {
    return f.pixels_before(static_cast<std::uint32_t>(min(m + half * kHalf, end)));
  };
  // Rows start at a multiple of eight pixels.
#pragma unroll
  for (int h = 0; h < kTile / kHalf; ++h) {
    const int at = m + h * kHalf + thread;
    std::uint32_t n = 0;
    const int pixel = at < end ? f.pixel(static_cast<std::uint32_t>(at), f.out_height, f.out_width, n) : -1;
    places[h * kHalf + thread] = static_cast<Word>(
        pixel < 0 ? kNowhere : static_cast<int>(n * f.out_pixels.divisor - (first_pixel(h) & ~7u)) + pixel);
  }
  float add[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    add[i] = bias && f0 + row + 8 * i < filters ? gpu::to_compute(bias[f0 + row + 8 * i]) : 0.0f;
#pragma unroll
  for (int h = 0; h < kTile / kHalf; ++h) {
    if (m + h * kHalf >= end) break;
    mma::named_barrier_sync(barrier, 128);
#pragma unroll
    for (int j = 0; j < kHalf / 8; ++j) {
      const std::uint32_t pair =
          *reinterpret_cast<const std::uint32_t*>(places + h * kHalf + 8 * j + lane % 4 * 2);
      const std::uint32_t low = pair & 0xffff, high = pair >> 16;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* const d = sums + h * (kHalf / 2) + 4 * j + 2 * i;
        const std::uint32_t both = mma::pack<T>(d[0] + add[i], d[1] + add[i]);
        Word* const to = staging + (row + 8 * i) * kPitch;
        if (low != kNowhere) to[low] = static_cast<Word>(both);
        if (high != kNowhere) to[high] = static_cast<Word>(both >> 16);
      }
    }
    mma::named_barrier_sync(barrier, 128);
    const std::uint32_t first = first_pixel(h), last = first_pixel(h + 1), plane = f.out_pixels.divisor;
    const auto write = [&]<int kWidth>(std::integral_constant<int, kWidth>) {
      constexpr int kVectors = kPitch / kWidth;
#pragma unroll 2
      for (int i = thread; i < kVectors * kChannels; i += 128) {
        const int line = i / kVectors, v = i % kVectors * kWidth;
        const std::uint32_t u = (first & ~7u) + v, image = f.out_pixels.divide(u);
        if (u >= last || f0 + line >= filters) continue;
        const Word* const from = staging + line * kPitch + v;
        Word* const to =
            y + (static_cast<long long>(image) * filters + f0 + line) * plane + (u - image * plane);
        using Vector = std::conditional_t<kWidth == 8, uint4, uint2>;
        if (u >= first && u + kWidth <= last) {
          *reinterpret_cast<Vector*>(to) = *reinterpret_cast<const Vector*>(from);
        } else {
#pragma unroll
          for (int e = 0; e < kWidth; ++e)
            if (u + e >= first && u + e < last) to[e] = from[e];
        }
      }
    };
    if (width == 8)
      write(std::integral_constant<int, 8>());
    else
      write(std::integral_constant<int, 4>());
  }
}

}  // namespace ct::convolution
