#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/convolution/flat_internal.h>
#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/core/cuda/mma/tile.cuh>
#include <cotangent/ops/convolution/flat_layout_internal.cuh>

// Convolutions of stride 1 in 16 bits, on images that are laid out flat (flat_internal.h). A block brings the positions that
// its pixels read into shared memory once; every tap is a product with the same tile, some rows further down. Rows of a tile
// are 64 channels, 128 bytes.
//
// y, and x's gradient, which is the same of flipped filters: a block computes 192 positions of 64 filters; the filters'
// elements of one tap at a time follow in a ring. The gradient of the weight: a block sums, over its share of the
// positions, all nine taps of 64 filters and 64 channels in registers.

namespace ct::convolution {
namespace {

using Rows = mma::Tile<64>;

constexpr std::size_t kMostShared = 99 * 1024;  // what every GPU from sm_80 on has

/// Images as the kernels read them: [N, height, width, padded channels].
struct Image {
  const Word* data;
  int height, width, padded;
};

// Copies positions [first, first + count), channels from c0 on, into the rows of a tile; zeros where there are none. Each
// lane finds the place of one of 32 positions; eight lanes then copy a row.
template <int kThreads>
__device__ __forceinline__ void load_rows(std::uint32_t tile, const Flat& f, const Image& x, int c0,
                                          int first, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32, chunk = lane % 8, c = c0 + chunk * 8;
  const Word* const from = x.data + (c < x.padded ? c : 0);
  for (int base = static_cast<int>(threadIdx.x) / 32 * 32; base < count; base += kThreads) {
    const int m = first + base + lane;
    std::uint32_t n = 0;
    int place = -1;
    if (m >= 0 && m < f.positions) place = f.pixel(static_cast<std::uint32_t>(m), x.height, x.width, n);
    if (place >= 0) place += static_cast<int>(n) * (x.height * x.width);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = base + i * 4 + lane / 8, at = __shfl_sync(~0u, place, i * 4 + lane / 8);
      if (row < count)
        mma::copy_async_16(tile + Rows::offset(row, chunk),
                           from + static_cast<long long>(at < 0 ? 0 : at) * x.padded,
                           at >= 0 && c < x.padded);
    }
  }
}

// ---- y, and x's gradient ----

constexpr int kPixels = 192, kFilters = 64, kFlatThreads = 128;  // a warp has 48 pixels and all filters
constexpr int kWarpPixels = kPixels / (kFlatThreads / 32);
constexpr int kStages = 4, kFilterBytes = kFilters * Rows::row_bytes;
constexpr int kOutPitch = kPixels + 8;  // eight rows of results meet different banks

template <class T>
__global__ void __launch_bounds__(kFlatThreads, 3)
    flat_kernel(const __grid_constant__ Flat f, const __grid_constant__ Image x, const Word* __restrict__ w,
                const T* __restrict__ bias, Word* __restrict__ y, int filters) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int seen = f.seen(kPixels), padded = x.padded;
  const std::uint32_t ring = mma::shared_address(smem), tile = ring + kStages * kFilterBytes;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int filter_tiles = (filters + kFilters - 1) / kFilters;
  const int m0 = static_cast<int>(blockIdx.x) / filter_tiles * kPixels;
  const int f0 = static_cast<int>(blockIdx.x) % filter_tiles * kFilters;
  const int steps = (padded + kChannels - 1) / kChannels * f.taps;

  // Step s: tap s % taps of channels s / taps * 64 and on.
  int load_tap = 0, load_c = thread % 8 * 8, loaded = 0;
  const long long tap_stride = static_cast<long long>(filters) * padded;
  const Word* next = w + static_cast<long long>(f0 + thread / 8) * padded + load_c;
  const auto load_filters = [&] {
    if (loaded < steps) {
      const std::uint32_t to = ring + loaded % kStages * kFilterBytes + Rows::offset(thread / 8, thread % 8);
#pragma unroll
      for (int i = 0; i < kFilters * 8 / kFlatThreads; ++i) {
        constexpr int kStep = kFlatThreads / 8;  // rows, which the swizzle does not see
        const bool there = f0 + thread / 8 + i * kStep < filters && load_c < padded;
        mma::copy_async_16(to + i * kStep * Rows::row_bytes, there ? next + i * kStep * padded : w, there);
      }
      next += tap_stride;
      if (++load_tap == f.taps) load_tap = 0, load_c += kChannels, next += kChannels - f.taps * tap_stride;
    }
    ++loaded;
    mma::copy_async_commit();
  };

  float sums[4][kWarpPixels / 8][4] = {};  // 16 filters by 8 pixels each
  load_rows<kFlatThreads>(tile, f, x, 0, m0 + f.first, seen);
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) load_filters();
  int shift = 0, column = 0, tap = 0, c0 = 0;
  for (int s = 0; s < steps; ++s) {
    mma::copy_async_wait<kStages - 2>();
    __syncthreads();  // all have what this step reads, and have read what the one before did
    if (tap == f.taps) {
      tap = shift = column = 0, c0 += kChannels;
      load_rows<kFlatThreads>(tile, f, x, c0, m0 + f.first, seen);
      mma::copy_async_commit();
      mma::copy_async_wait<0>();
      __syncthreads();
    }
    load_filters();
    const std::uint32_t a_tile = ring + s % kStages * kFilterBytes;
    const int row = warp * kWarpPixels + (lane & 7) + ((lane >> 4) << 3) + shift, half = lane >> 3 & 1;
    const std::uint32_t b_row = tile + row * Rows::row_bytes;
    constexpr int kGroups = kWarpPixels / 16, kLoads = kChannels / 16 * kGroups;
    const auto load_b = [&](std::uint32_t(&b)[4], int l) {  // 16 pixels of step l / kGroups
      mma::load_matrices(
          b, b_row + l % kGroups * 16 * Rows::row_bytes + (((2 * (l / kGroups) + half) ^ (row & 7)) << 4));
    };
    std::uint32_t a[4][4], b[2][4];  // of b the next is on its way while one is multiplied
    load_b(b[0], 0);
#pragma unroll
    for (int l = 0; l < kLoads; ++l) {
      if (l % kGroups == 0)
#pragma unroll
        for (int i = 0; i < 4; ++i) mma::load_matrices(a[i], Rows::block(a_tile, 16 * i, 2 * (l / kGroups)));
      if (l + 1 < kLoads) load_b(b[(l + 1) % 2], l + 1);
      const int j = l % kGroups * 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        mma::multiply_add<T>(sums[i][j], a[i], b[l % 2][0], b[l % 2][1]);
        mma::multiply_add<T>(sums[i][j + 1], a[i], b[l % 2][2], b[l % 2][3]);
      }
    }
    ++tap, shift += f.step_column;
    if (++column == f.kernel_width) column = 0, shift += f.step_row - f.kernel_width * f.step_column;
  }

  // Turned in shared memory into rows of pixels, and from there to where the pixels are, without the gaps.
  mma::copy_async_wait<0>();
  __syncthreads();
  Word* const out = reinterpret_cast<Word*>(smem);
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = 16 * i + 8 * h + lane / 4;
      const float add = bias && f0 + row < filters ? gpu::to_compute(bias[f0 + row]) : 0.0f;
#pragma unroll
      for (int j = 0; j < kWarpPixels / 8; ++j)
        *reinterpret_cast<std::uint32_t*>(out + row * kOutPitch + warp * kWarpPixels + 8 * j + lane % 4 * 2) =
            mma::pack<T>(sums[i][j][2 * h] + add, sums[i][j][2 * h + 1] + add);
    }
  __syncthreads();
  const std::uint32_t first = f.pixels_before(static_cast<std::uint32_t>(m0));
  const std::uint32_t last =
      f.pixels_before(static_cast<std::uint32_t>(m0 + kPixels < f.positions ? m0 + kPixels : f.positions));
  const std::uint32_t plane = f.out_pixels.divisor;
  const int rows = filters - f0 < kFilters ? filters - f0 : kFilters;
  const auto write = [&]<int kWidth>(std::integral_constant<int, kWidth>) {
    for (std::uint32_t u = (first / kWidth + thread % 64) * kWidth; u < last; u += 64 * kWidth) {
      int at[kWidth];
      bool all = true;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        at[e] = u + e >= first && u + e < last ? f.position(u + e) - m0 : -1;
        all = all && at[e] >= 0;
      }
      const std::uint32_t n = f.out_pixels.divide(u);
      Word* const to = y + (static_cast<long long>(n) * filters + f0) * plane + (u - n * plane);
      for (int row = thread / 64; row < rows; row += kFlatThreads / 64) {
        const Word* const from = out + row * kOutPitch;
        Word* const line = to + static_cast<long long>(row) * plane;
        if constexpr (kWidth == 4) {
          if (all) {
            *reinterpret_cast<uint2*>(line) = {from[at[0]] | static_cast<std::uint32_t>(from[at[1]]) << 16,
                                               from[at[2]] | static_cast<std::uint32_t>(from[at[3]]) << 16};
            continue;
          }
        }
#pragma unroll
        for (int e = 0; e < kWidth; ++e)
          if (at[e] >= 0) line[e] = from[at[e]];
      }
    }
  };
  if (plane % 4 == 0)
    write(std::integral_constant<int, 4>());
  else
    write(std::integral_constant<int, 1>());
}

// ---- the gradient of the weight of a kernel of nine taps ----

constexpr int kTaps = 9, kDepth = 128,
              kWeightThreads = 256;  // a warp has 8 channels of all taps, and all filters
constexpr int kWeightBlocks = 132;   // one for each multiprocessor of a large GPU

template <class T>
__global__ void __launch_bounds__(kWeightThreads, 1)
    flat_weight_kernel(const __grid_constant__ Flat f, const __grid_constant__ Image x,
                       const __grid_constant__ Image g, float* __restrict__ partial, int channels,
                       int filters, int splits) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int seen = f.seen(kDepth), stage_bytes = (seen + kDepth) * Rows::row_bytes;
  const std::uint32_t stages = mma::shared_address(smem);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  int block = static_cast<int>(blockIdx.x);
  const int split = block % splits;
  block /= splits;
  const int channel_tiles = (channels + kChannels - 1) / kChannels;
  const int c0 = block % channel_tiles * kChannels, f0 = block / channel_tiles * kFilters;
  const std::int64_t parts = (f.positions + kDepth - 1) / kDepth;  // dealt out as evenly as it goes
  const int begin = static_cast<int>(parts * split / splits),
            end = static_cast<int>(parts * (split + 1) / splits);

  const auto load = [&](int part) {
    if (part < end) {
      const std::uint32_t to = stages + (part - begin) % 2 * stage_bytes;
      load_rows<kWeightThreads>(to, f, g, f0, part * kDepth, kDepth);
      load_rows<kWeightThreads>(to + kDepth * Rows::row_bytes, f, x, c0, part * kDepth + f.first, seen);
    }
    mma::copy_async_commit();
  };

  float sums[kTaps][4][4] = {};  // 16 filters by 8 channels each
  load(begin);
  for (int part = begin; part < end; ++part) {
    load(part + 1);
    mma::copy_async_wait<1>();
    __syncthreads();
    const std::uint32_t a_tile = stages + (part - begin) % 2 * stage_bytes;
    const std::uint32_t b_tile = a_tile + kDepth * Rows::row_bytes;
#pragma unroll 1
    for (int k = 0; k < kDepth; k += 32) {
      std::uint32_t a[2][4][4];
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          mma::load_matrices_transposed(a[h][i], Rows::block_columns(a_tile, k + 16 * h, 2 * i));
      std::uint32_t b[2][4];  // 32 positions of the warp's channels; those of the next tap are on their way
      const auto load_b = [&](std::uint32_t(&to)[4], int tap) {
        mma::load_matrices_transposed(
            to, b_tile + Rows::offset(k + lane + tap / 3 * f.step_row + tap % 3 * f.step_column, warp));
      };
      load_b(b[0], 0);
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        if (tap + 1 < kTaps) load_b(b[(tap + 1) % 2], tap + 1);
#pragma unroll
        for (int h = 0; h < 2; ++h)  // outside, so that no product waits for the one before
#pragma unroll
          for (int i = 0; i < 4; ++i)
            mma::multiply_add<T>(sums[tap][i], a[h][i], b[tap % 2][2 * h], b[tap % 2][2 * h + 1]);
      }
    }
    __syncthreads();
  }
  mma::copy_async_wait<0>();

  // Sums in the order of the weight's elements, 16 filters at a time by way of shared memory: whole lines are written.
  constexpr int kRow = kChannels * kTaps, kRowPitch = kRow + 4;
  float* const rows = reinterpret_cast<float*>(smem);
  const int count = (channels - c0 < kChannels ? channels - c0 : kChannels) * kTaps;
  float* const to = partial + (static_cast<long long>(split) * filters * channels + c0) * kTaps;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    __syncthreads();
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap)
        rows[(e / 2 * 8 + lane / 4) * kRowPitch + (warp * 8 + lane % 4 * 2 + e % 2) * kTaps + tap] =
            sums[tap][i][e];
    __syncthreads();
    for (int row = warp; row < 16 && f0 + 16 * i + row < filters; row += kWeightThreads / 32)
      for (int at = lane; at < count; at += 32)
        to[static_cast<long long>(f0 + 16 * i + row) * channels * kTaps + at] = rows[row * kRowPitch + at];
  }
}

// ---- launches ----

int round_up(std::int64_t n, int step) { return static_cast<int>((n + step - 1) / step * step); }

// `t`, [N, C, H, W], with whole vectors of channels side by side.
Tensor channels_last(const char* op, const Tensor& t) {
  const int channels = static_cast<int>(t.size(1)), padded = round_up(channels, 8);
  const std::int64_t plane = t.size(2) * t.size(3), tiles = gpu::ceil_div(plane, kLayoutPixels);
  const Tensor to = Tensor::allocate({t.size(0), t.size(2), t.size(3), padded}, t.dtype(), t.device());
  gpu::launch(op, layout_kernel,
              dim3(gpu::blocks_for(op, t.size(0) * tiles, 1),
                   static_cast<unsigned>(gpu::ceil_div(padded, kChannels))),
              256, 0, static_cast<const Word*>(t.raw_data()), static_cast<Word*>(to.raw_data()), plane,
              channels, padded, tiles);
  return to;
}
Image image_of(const Tensor& t) {
  return {static_cast<const Word*>(t.raw_data()), static_cast<int>(t.size(1)), static_cast<int>(t.size(2)),
          static_cast<int>(t.size(3))};
}

template <class T>
void convolve(const Job& job, const Flat& f, bool back, std::size_t smem) {
  const Geometry& g = job.g;
  const Tensor& weight = *job.parts[static_cast<std::size_t>(Part::weight)];
  const int filters = static_cast<int>(back ? g.channels : g.filters);
  const int depth = static_cast<int>(back ? g.filters : g.channels), padded = round_up(depth, 8);
  const Tensor x = channels_last(job.op, *job.parts[static_cast<std::size_t>(back ? Part::y : Part::x)]);
  const Tensor w = Tensor::allocate({f.taps, filters, padded}, weight.dtype(), weight.device());
  const std::int64_t filter = g.channels * f.taps;  // in memory
  gpu::launch(job.op, filters_kernel, gpu::blocks_for(job.op, w.numel(), 256), 256, 0,
              static_cast<const Word*>(weight.raw_data()), static_cast<Word*>(w.raw_data()), f.taps, filters,
              depth, padded, back ? f.taps : filter, back ? filter : f.taps, back);
  const std::int64_t blocks = gpu::ceil_div(f.positions, kPixels) * gpu::ceil_div(filters, kFilters);
  gpu::launch(job.op, flat_kernel<T>, gpu::blocks_for(job.op, blocks, 1), kFlatThreads, smem, f, image_of(x),
              static_cast<const Word*>(w.raw_data()),
              job.bias ? static_cast<const T*>(job.bias->raw_data()) : nullptr,
              static_cast<Word*>(job.out().raw_data()), filters);
}

template <class T>
void weight_gradient(const Job& job, const Flat& f, std::size_t smem) {
  const Geometry& g = job.g;
  const Tensor x = channels_last(job.op, *job.parts[static_cast<std::size_t>(Part::x)]);
  const Tensor dy = channels_last(job.op, *job.parts[static_cast<std::size_t>(Part::y)]);
  const std::int64_t tiles = gpu::ceil_div(g.filters, kFilters) * gpu::ceil_div(g.channels, kChannels);
  const std::int64_t parts = gpu::ceil_div(f.positions, kDepth);
  const std::int64_t splits = std::max<std::int64_t>(1, std::min(kWeightBlocks / tiles, parts));
  const std::int64_t size = job.out().numel();
  const Tensor partial = Tensor::allocate({splits, size}, DType::f32, job.out().device());
  gpu::launch(job.op, flat_weight_kernel<T>, gpu::blocks_for(job.op, tiles * splits, 1), kWeightThreads, smem,
              f, image_of(x), image_of(dy), partial.data<float>(), g.channels, g.filters, splits);
  fold::sum_cuda(partial, 1, job.out().view({size}), 1, job.accumulate);
}

}  // namespace

// Whether a part is such a convolution, and its layout.
static bool lay_out_part(const Geometry& g, DType dtype, Part result, Flat& f) {
  constexpr std::int64_t kFew = 16;  // of channels or filters, for which most of a tile would be zeros
  return is_low_precision(dtype) && g.groups == 1 && g.height.stride == 1 && g.width.stride == 1 &&
         std::min(g.channels, g.filters) >= kFew && std::max(g.channels, g.filters) <= (1 << 20) &&
         g.batch > 0 && (result != Part::weight || (g.height.kernel == 3 && g.width.kernel == 3)) &&
         lay_out(g, result == Part::x, f);
}
static std::size_t shared_bytes(const Flat& f, Part result) {
  const bool of_weight = result == Part::weight;
  const std::int64_t rows = of_weight ? 2LL * (f.seen(kDepth) + kDepth) : f.seen(kPixels);
  return static_cast<std::size_t>(rows * Rows::row_bytes + (of_weight ? 0 : kStages * kFilterBytes));
}

#ifndef COTANGENT_SM90A
static bool takes_hopper(const Flat&, Part) { return false; }
static bool run_hopper(const Job&, const Flat&) { return false; }
#endif

bool takes_flat(const Geometry& g, DType dtype, Part result) {
  Flat f;
  return lay_out_part(g, dtype, result, f) &&
         (shared_bytes(f, result) <= kMostShared || takes_hopper(f, result));
}

bool run_flat(const Job& job) {
  const DType dtype = job.parts[0]->dtype();
  Flat f;
  if (!lay_out_part(job.g, dtype, job.result, f)) return false;
  if (run_hopper(job, f)) return true;
  const std::size_t smem = shared_bytes(f, job.result);
  if (smem > kMostShared) return false;
  const auto run = [&]<class T>() {
    job.result == Part::weight ? weight_gradient<T>(job, f, smem)
                               : convolve<T>(job, f, job.result == Part::x, smem);
  };
  dtype == DType::bf16 ? run.template operator()<BFloat16>() : run.template operator()<Half>();
  return true;
}

}  // namespace ct::convolution
