#pragma once

#include <cotangent/ops/convolution/hopper/store.cuh>
#include <cotangent/ops/convolution/hopper/turn.cuh>

// y, and x's gradient, on Hopper. A block goes over a run of positions, 256 at a time, for 64 filters. One warpgroup turns
// the images into panels, two others take turns with the products: while one writes its results, the tensor cores work
// for the other. The filters of all taps stay in shared memory where they fit, else they follow in a ring.

namespace ct::convolution {

constexpr int kPanel = 64 * 128;                                 // bytes
constexpr int kTurners = 128, kProductThreads = kTurners + 256;  // threads

/// Bytes of shared memory, in this order: panels of filters, two tiles, results on their way out, images being turned,
/// barriers; and 1 KiB to align it all.
struct ProductLayout {
  int slots, rows;  // panels of filters, rows of a tile
  int width;        // pixels of y that can be written at once
  CT_HD int tiles() const { return slots * kPanel; }
  CT_HD int staging() const { return tiles() + 2 * rows * 128; }
  CT_HD int turning() const { return staging() + 2 * kStagingBytes; }
  CT_HD int barriers() const { return turning() + kTurnBytes; }
  CT_HD int bytes() const { return 1024 + barriers() + 8 * (4 + 2 * slots); }
};

template <class T>
__global__ void __launch_bounds__(kProductThreads, 1)
    hopper_product_kernel(const __grid_constant__ Flat f, const __grid_constant__ Planes x,
                          const ProductLayout layout, const Word* __restrict__ panels,
                          const T* __restrict__ bias, Word* __restrict__ y, int filters) {
  extern __shared__ unsigned char raw[];
  const int slots = layout.slots, stage_bytes = layout.rows * 128;
  const std::uint32_t ring = (mma::shared_address(raw) + 1023) & ~1023u, tiles = ring + layout.tiles();
  const std::uint32_t full = ring + layout.barriers(), free = full + 16, filters_full = free + 16,
                      filters_free = filters_full + 8 * slots;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int taps = f.taps, groups = (x.channels + kChannels - 1) / kChannels;
  const bool resident = groups == 1 && taps <= slots;
  const int eights = (f.positions + 7) / 8;
  const int begin = static_cast<int>(static_cast<long long>(eights) * blockIdx.x / gridDim.x) * 8;
  const int end = static_cast<int>(static_cast<long long>(eights) * (blockIdx.x + 1) / gridDim.x) * 8;
  const int f0 = static_cast<int>(blockIdx.y) * kChannels;

  if (thread == 0) {
    for (int s = 0; s < 2; ++s)
      mma::barrier_init(full + 8 * s, kTurners / 32), mma::barrier_init(free + 8 * s, 4);
    for (int s = 0; s < slots; ++s)
      mma::barrier_init(filters_full + 8 * s, 1), mma::barrier_init(filters_free + 8 * s, 4);
    mma::barrier_init_fence();
  }
  __syncthreads();

  if (thread < kTurners) {
    mma::registers_shrink<104>();
    const Word* const from = panels + static_cast<long long>(blockIdx.y) * groups * taps * (kPanel / 2);
    int loaded = 0;
    const auto load_filters = [&](int until) {
      for (; thread == 0 && loaded < until; ++loaded) {
        const int slot = loaded % slots;
        mma::barrier_wait(filters_free + 8 * slot, (loaded / slots & 1) ^ 1);
        mma::barrier_expect(filters_full + 8 * slot, kPanel);
        mma::copy_run(ring + slot * kPanel,
                      from + static_cast<long long>(loaded % (groups * taps)) * (kPanel / 2), kPanel,
                      filters_full + 8 * slot);
      }
    };
    load_filters(begin < end ? min(slots, taps) : 0);
    int item = 0;
    for (int m = begin; m < end; m += kTile)
      for (int g = 0; g < groups; ++g, ++item) {
        const int stage = item & 1;
        mma::barrier_wait(free + 8 * stage, (item >> 1 & 1) ^ 1);
        const int known = groups == 1 && item > 0 ? f.seen(0) : 0;  // the end of the tile before
        turn_rows(tiles + stage * stage_bytes, tiles + (stage ^ 1) * stage_bytes + kTile * 128, known,
                  ring + layout.turning(), f, x, g * kChannels, m + f.first, f.seen(min(end - m, kTile)));
        mma::async_proxy_fence();
        __syncwarp();
        if (lane == 0) mma::barrier_arrive(full + 8 * stage);
        if (!resident) load_filters((item + 1) * taps);
      }
  } else {
    mma::registers_grow<200>();
    const int mine = thread / 128 - kTurners / 128;
    Word* const staging = reinterpret_cast<Word*>(raw + (ring - mma::shared_address(raw)) + layout.staging() +
                                                  mine * kStagingBytes);
    const auto done = [&](std::uint32_t barrier) {
      if (lane == 0) mma::barrier_arrive(barrier);
    };
    if (mine == 1) mma::named_barrier_arrive(1, 256);
    int item = 0, step = 0;
    for (int t = 0, m = begin; m < end; ++t, m += kTile) {
      if ((t & 1) != mine) {
        item += groups, step += groups * taps;
        continue;
      }
      const int width = end - m;
      float sums[kTile / 2];
      mma::named_barrier_sync(1 + mine, 256);
      for (int g = 0; g < groups; ++g, ++item) {
        const int stage = item & 1;
        mma::barrier_wait(full + 8 * stage, item >> 1 & 1);
        const auto multiply = [&]<int N>(std::integral_constant<int, N>) {
          int shift = 0, column = 0;
          for (int tap = 0; tap < taps; ++tap, ++step) {
            const int slot = resident ? tap : step % slots;
            mma::barrier_wait(filters_full + 8 * slot, resident ? 0 : step / slots & 1);
            const std::uint32_t a = ring + slot * kPanel, b = tiles + stage * stage_bytes + shift * 128;
            mma::products_begin();
#pragma unroll
            for (int k = 0; k < 4; ++k)
              mma::product<T, 0, 0, N>(sums, mma::operand(a + 32 * k), mma::operand(b + 32 * k),
                                       g + tap + k > 0);
            mma::products_commit();
            mma::products_wait<1>();
            if (!resident && tap > 0) done(filters_free + 8 * ((step - 1) % slots));
            shift += f.step_column;
            if (++column == f.kernel_width) column = 0, shift += f.step_row - f.kernel_width * f.step_column;
          }
          if (g == groups - 1) mma::named_barrier_arrive(1 + (mine ^ 1), 256);
          mma::products_wait<0>();
        };
        if (width <= 64)
          multiply(std::integral_constant<int, 64>());
        else if (width <= 128)
          multiply(std::integral_constant<int, 128>());
        else if (width <= 192)
          multiply(std::integral_constant<int, 192>());
        else
          multiply(std::integral_constant<int, 256>());
        done(free + 8 * stage);
        if (!resident) done(filters_free + 8 * ((step - 1) % slots));
      }
      mma::pin(sums);
      store_tile(sums, staging, f, y, bias, filters, f0, m, min(min(end, f.positions), m + kTile),
                 layout.width, 3 + mine);
    }
  }
}

}  // namespace ct::convolution
