#pragma once

#include <cotangent/ops/convolution/hopper/turn.cuh>

// The gradient of the weight of a 3 x 3 kernel on Hopper. A block sums, over its share of the positions, all nine taps of
// 64 filters and 64 channels: one warpgroup turns the images into panels, three others multiply, each for a row of the
// kernel. The three taps of a row are one product: what they see lies as many positions apart as the columns of the
// kernel, and so many rows apart lie the panels of 64 columns that the product's second operand is made of.

namespace ct::convolution {

constexpr int kPart = 256, kWeightConsumers = 3, kWeightThreads = 128 * (kWeightConsumers + 1);
constexpr int kSumRow = kChannels * 9, kSumPitch = kSumRow + 4;

struct WeightLayout {
  int rows;  // of x in a part
  CT_HD int stage() const { return (kPart + rows) * 128; }
  CT_HD int turning() const {
    const int sums = kChannels * kSumPitch * 4;
    return 2 * stage() > sums ? 2 * stage() : sums;
  }
  CT_HD int barriers() const { return turning() + kTurnBytes; }
  CT_HD int bytes() const { return 1024 + barriers() + 8 * 4; }
};

template <class T>
__global__ void __launch_bounds__(kWeightThreads, 1)
    hopper_weight_kernel(const __grid_constant__ Flat f, const __grid_constant__ Planes x,
                         const __grid_constant__ Planes g, const WeightLayout layout,
                         float* __restrict__ partial) {
  extern __shared__ unsigned char raw[];
  const std::uint32_t stages = (mma::shared_address(raw) + 1023) & ~1023u;
  const std::uint32_t turning = stages + layout.turning();
  const std::uint32_t full = stages + layout.barriers(), free = full + 16;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int c0 = static_cast<int>(blockIdx.y) * kChannels, f0 = static_cast<int>(blockIdx.z) * kChannels;
  const int steps = (f.positions + 15) / 16;
  const int begin = static_cast<int>(static_cast<long long>(steps) * blockIdx.x / gridDim.x) * 16;
  const int end = static_cast<int>(static_cast<long long>(steps) * (blockIdx.x + 1) / gridDim.x) * 16;

  if (thread == 0) {
    for (int s = 0; s < 2; ++s)
      mma::barrier_init(full + 8 * s, 4), mma::barrier_init(free + 8 * s, 4 * kWeightConsumers);
    mma::barrier_init_fence();
  }
  __syncthreads();

  int part = 0;
  if (thread < 128) {
    mma::registers_shrink<104>();
    for (int m = begin; m < end; m += kPart, ++part) {
      const int s = part & 1, count = min(end - m, kPart);
      const std::uint32_t tile = stages + s * layout.stage();
      mma::barrier_wait(free + 8 * s, (part >> 1 & 1) ^ 1);
      turn_rows(tile, 0, 0, turning, f, g, f0, m, count);
      turn_rows(tile + kPart * 128, stages + (s ^ 1) * layout.stage() + 2 * kPart * 128,
                part > 0 ? f.seen(0) : 0, turning, f, x, c0, m + f.first, f.seen(count));
      mma::async_proxy_fence();
      __syncwarp();
      if (lane == 0) mma::barrier_arrive(full + 8 * s);
    }
    return;
  }
  mma::registers_grow<136>();
  const int row = thread / 128 - 1, warp = thread / 32 % 4;  // row of the kernel
  float sums[3 * kChannels / 2];
#pragma unroll
  for (float& sum : sums) sum = 0;
  for (int m = begin; m < end; m += kPart, ++part) {
    const int s = part & 1, count = min(end - m, kPart);
    const std::uint32_t a = stages + s * layout.stage(), b = a + (kPart + row * f.step_row) * 128;
    mma::barrier_wait(full + 8 * s, part >> 1 & 1);
    mma::pin(sums);
    mma::products_begin();
    for (int k = 0; k < count; k += 16)
      mma::product<T, 1, 1, 192>(sums, mma::operand(a + k * 128),
                                 mma::operand(b + k * 128, f.step_column * 128), 1);
    mma::products_commit();
    mma::products_wait<0>();
    mma::pin(sums);
    if (lane == 0) mma::barrier_arrive(free + 8 * s);
  }

  // Sums in the order of the weight's elements, by way of the tiles' memory: whole lines are written.
  mma::named_barrier_sync(1, 128 * kWeightConsumers);
  float* const rows = reinterpret_cast<float*>(raw + (stages - mma::shared_address(raw)));
#pragma unroll
  for (int i = 0; i < 3 * kChannels / 2; ++i) {
    const int column = i % 32 / 4 * 8 + lane % 4 * 2 + i % 2;
    rows[(16 * warp + i % 4 / 2 * 8 + lane / 4) * kSumPitch + column * 9 + row * 3 + i / 32] = sums[i];
  }
  mma::named_barrier_sync(1, 128 * kWeightConsumers);
  const int filters = g.channels, channels = x.channels, count = min(kChannels, channels - c0) * 9;
  float* const to = partial + (static_cast<long long>(blockIdx.x) * filters * channels + c0) * 9;
  for (int r = thread / 32 - 4; r < kChannels && f0 + r < filters; r += 4 * kWeightConsumers)
    for (int at = lane; at < count; at += 32)
      to[static_cast<long long>(f0 + r) * channels * 9 + at] = rows[r * kSumPitch + at];
}

}  // namespace ct::convolution
