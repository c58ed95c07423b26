#include <cotangent/core/cuda/convert.h>
#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/convolution/flat_internal.h>
#include <cotangent/ops/engine/fold/sum.h>
#include <cotangent/ops/engine/mma/tile.cuh>

// Convolutions of stride 1 in 16 bits, on images that are laid out flat (flat_internal.h): a block brings the positions that
// its pixels see into shared memory once, and every tap is a product with the same tile, some rows further down. Rows of
// a tile are 64 channels, 128 bytes.
//
// y, and x's gradient, which is the same of flipped filters: a block computes 256 positions of 64 filters; the filters'
// elements of one tap at a time follow in a ring. The gradient of the weight: a block sums, over its share of the
// positions, all nine taps of 64 filters and 64 channels in registers.

namespace ct::convolution {
namespace {

using Word = std::uint16_t;  // elements are not looked into but by the tensor cores
using Rows = mma::Tile<64>;

constexpr int kChannels = 64;                    // of a tile
constexpr std::int64_t kMostShared = 99 * 1024;  // what every GPU from sm_80 on has

// ---- layouts ----

// NCHW to flat: 64 channels of 64 positions.
__global__ void __launch_bounds__(256)
    layout_kernel(const __grid_constant__ Flat f, const Word* __restrict__ from, Word* __restrict__ to,
                  int height, int width, int channels, int padded) {
  __shared__ alignas(128) unsigned char tile[64 * Rows::row_bytes];
  const int thread = static_cast<int>(threadIdx.x), c0 = static_cast<int>(blockIdx.y) * kChannels;
  const int first = static_cast<int>(blockIdx.x) * 64, row = thread % 64, group = thread / 64;
  std::uint32_t n = 0;
  const int m = first + row;
  const int pixel = m < f.positions ? f.pixel(static_cast<std::uint32_t>(m), height, width, n) : -1;
  const long long plane = static_cast<long long>(height) * width;
  const int c = c0 + group * 16;
  const Word* const x = from + (static_cast<long long>(n) * channels + c) * plane + pixel;
  Word in[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) in[i] = pixel >= 0 && c + i < channels ? x[i * plane] : Word(0);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const auto pair = [&](int i) {
      return in[8 * h + i] | static_cast<std::uint32_t>(in[8 * h + i + 1]) << 16;
    };
    *reinterpret_cast<uint4*>(tile + Rows::offset(row, group * 2 + h)) = {pair(0), pair(2), pair(4), pair(6)};
  }
  __syncthreads();
#pragma unroll
  for (int i = thread; i < 64 * 8; i += 256) {
    const int line = i / 8, chunk = i % 8;
    if (first + line < f.positions && c0 + chunk * 8 < padded)
      *reinterpret_cast<uint4*>(to + static_cast<long long>(first + line) * padded + c0 + chunk * 8) =
          *reinterpret_cast<const uint4*>(tile + Rows::offset(line, chunk));
  }
}

// Filters as rows of one tap after the other: [taps, rows, padded depth], for x's gradient the last tap first.
__global__ void __launch_bounds__(256)
    filters_kernel(const Word* __restrict__ w, Word* __restrict__ to, int taps, int rows, int depth,
                   int padded, long long row_stride, long long depth_stride, bool back) {
  const std::int64_t i = std::int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i >= std::int64_t{taps} * rows * padded) return;
  const int k = static_cast<int>(i % padded), row = static_cast<int>(i / padded % rows);
  const int tap = static_cast<int>(i / padded / rows);
  to[i] = k < depth ? w[row * row_stride + k * depth_stride + (back ? taps - 1 - tap : tap)] : Word(0);
}

// Copies rows [first, first + count) of a flat image, channels from c0 on, into a tile; zeros where there are none.
template <int kThreads>
__device__ __forceinline__ void load_rows(std::uint32_t tile, const Word* x, int positions, int padded,
                                          int c0, int first, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count * 8; i += kThreads) {
    const int row = i / 8, chunk = i % 8, m = first + row, c = c0 + chunk * 8;
    const bool there = static_cast<unsigned>(m) < static_cast<unsigned>(positions) && c < padded;
    mma::copy_async_16(tile + Rows::offset(row, chunk),
                       x + (there ? static_cast<long long>(m) * padded + c : 0), there);
  }
}

// ---- y, and x's gradient ----

constexpr int kPixels = 256, kFilters = 64, kThreads = 128;  // a warp has 64 pixels and all filters
constexpr int kStages = 4, kFilterBytes = kFilters * Rows::row_bytes;
constexpr int kOutPitch = kPixels + 8;  // eight rows of results meet different banks

template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    flat_kernel(const __grid_constant__ Flat f, const Word* __restrict__ x, const Word* __restrict__ w,
                const T* __restrict__ bias, Word* __restrict__ y, int filters, int padded) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int seen = f.seen(kPixels);
  const std::uint32_t ring = mma::shared_address(smem), tile = ring + kStages * kFilterBytes;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int filter_tiles = (filters + kFilters - 1) / kFilters;
  const int m0 = static_cast<int>(blockIdx.x) / filter_tiles * kPixels;
  const int f0 = static_cast<int>(blockIdx.x) % filter_tiles * kFilters;
  const int steps = (padded + kChannels - 1) / kChannels * f.taps;

  // Step s: tap s % taps of channels s / taps * 64 and on.
  int load_tap = 0, load_c = 0, loaded = 0;
  const auto load_filters = [&] {
    if (loaded < steps) {
      const std::uint32_t to = ring + loaded % kStages * kFilterBytes;
#pragma unroll
      for (int i = 0; i < kFilters * 8 / kThreads; ++i) {
        const int row = thread / 8 + i * (kThreads / 8), chunk = thread % 8, c = load_c + chunk * 8;
        const bool there = f0 + row < filters && c < padded;
        mma::copy_async_16(
            to + Rows::offset(row, chunk),
            w + (there ? (static_cast<long long>(load_tap) * filters + f0 + row) * padded + c : 0), there);
      }
      if (++load_tap == f.taps) load_tap = 0, load_c += kChannels;
    }
    ++loaded;
    mma::copy_async_commit();
  };

  float sums[4][8][4] = {};  // 16 filters by 8 pixels each
  load_rows<kThreads>(tile, x, f.positions, padded, 0, m0 + f.first, seen);
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) load_filters();
  int shift = 0, column = 0, tap = 0, c0 = 0;
  for (int s = 0; s < steps; ++s) {
    mma::copy_async_wait<kStages - 2>();
    __syncthreads();  // all have what this step reads, and have read what the one before did
    if (tap == f.taps) {
      tap = shift = column = 0, c0 += kChannels;
      load_rows<kThreads>(tile, x, f.positions, padded, c0, m0 + f.first, seen);
      mma::copy_async_commit();
      mma::copy_async_wait<0>();
      __syncthreads();
    }
    load_filters();
    const std::uint32_t a_tile = ring + s % kStages * kFilterBytes;
    const int row = warp * 64 + (lane & 7) + ((lane >> 4) << 3) + shift, half = lane >> 3 & 1;
    const std::uint32_t b_row = tile + row * Rows::row_bytes;
#pragma unroll
    for (int k = 0; k < kChannels / 16; ++k) {
      std::uint32_t a[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) mma::load_matrices(a[i], Rows::block(a_tile, 16 * i, 2 * k));
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        std::uint32_t b[4];
        mma::load_matrices(b, b_row + j * 16 * Rows::row_bytes + (((2 * k + half) ^ (row & 7)) << 4));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          mma::multiply_add<T>(sums[i][2 * j], a[i], b[0], b[1]);
          mma::multiply_add<T>(sums[i][2 * j + 1], a[i], b[2], b[3]);
        }
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
      for (int j = 0; j < 8; ++j)
        *reinterpret_cast<std::uint32_t*>(out + row * kOutPitch + warp * 64 + 8 * j + lane % 4 * 2) =
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
      for (int row = thread / 64; row < rows; row += kThreads / 64) {
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
constexpr int kWantedBlocks = 132;   // one for each multiprocessor of a large GPU

template <class T>
__global__ void __launch_bounds__(kWeightThreads, 1)
    flat_weight_kernel(const __grid_constant__ Flat f, const Word* __restrict__ x, const Word* __restrict__ g,
                       float* __restrict__ partial, int channels, int padded_channels, int filters,
                       int padded_filters, int splits) {
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
      load_rows<kWeightThreads>(to, g, f.positions, padded_filters, f0, part * kDepth, kDepth);
      load_rows<kWeightThreads>(to + kDepth * Rows::row_bytes, x, f.positions, padded_channels, c0,
                                part * kDepth + f.first, seen);
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
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        std::uint32_t b[4];  // 32 positions of the warp's channels
        mma::load_matrices_transposed(
            b, b_tile + Rows::offset(k + lane + tap / 3 * f.step_row + tap % 3 * f.step_column, warp));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          mma::multiply_add<T>(sums[tap][i], a[0][i], b[0], b[1]);
          mma::multiply_add<T>(sums[tap][i], a[1][i], b[2], b[3]);
        }
      }
    }
    __syncthreads();
  }
  mma::copy_async_wait<0>();

  float* const to = partial + static_cast<long long>(split) * filters * channels * kTaps;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int o = f0 + 16 * i + e / 2 * 8 + lane / 4, c = c0 + warp * 8 + lane % 4 * 2 + e % 2;
      if (o >= filters || c >= channels) continue;
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap)
        to[(static_cast<long long>(o) * channels + c) * kTaps + tap] = sums[tap][i][e];
    }
}

// ---- launches ----

int round_up(std::int64_t n, int step) { return static_cast<int>((n + step - 1) / step * step); }

// `t`, [N, C, H, W], as flat positions of whole vectors of channels.
Tensor flat(const Job& job, const Flat& f, const Tensor& t) {
  const int channels = static_cast<int>(t.size(1)), padded = round_up(channels, 8);
  const Tensor to = Tensor::allocate({f.positions, padded}, t.dtype(), t.device());
  gpu::launch(
      job.op, layout_kernel,
      dim3(gpu::blocks_for(job.op, f.positions, 64), static_cast<unsigned>(gpu::ceil_div(padded, kChannels))),
      256, 0, f, static_cast<const Word*>(t.raw_data()), static_cast<Word*>(to.raw_data()), t.size(2),
      t.size(3), channels, padded);
  return to;
}

template <class T>
void convolve(const Job& job, const Flat& f, bool back, std::size_t smem) {
  const Geometry& g = job.g;
  const Tensor& weight = *job.parts[static_cast<std::size_t>(Part::weight)];
  const int filters = static_cast<int>(back ? g.channels : g.filters);
  const int depth = static_cast<int>(back ? g.filters : g.channels), padded = round_up(depth, 8);
  const Tensor x = flat(job, f, *job.parts[static_cast<std::size_t>(back ? Part::y : Part::x)]);
  const Tensor w = Tensor::allocate({f.taps, filters, padded}, weight.dtype(), weight.device());
  const std::int64_t filter = g.channels * f.taps;  // in memory
  gpu::launch(job.op, filters_kernel, gpu::blocks_for(job.op, w.numel(), 256), 256, 0,
              static_cast<const Word*>(weight.raw_data()), static_cast<Word*>(w.raw_data()), f.taps, filters,
              depth, padded, back ? f.taps : filter, back ? filter : f.taps, back);
  const std::int64_t blocks = gpu::ceil_div(f.positions, kPixels) * gpu::ceil_div(filters, kFilters);
  gpu::launch(job.op, flat_kernel<T>, gpu::blocks_for(job.op, blocks, 1), kThreads, smem, f,
              static_cast<const Word*>(x.raw_data()), static_cast<const Word*>(w.raw_data()),
              job.bias ? static_cast<const T*>(job.bias->raw_data()) : nullptr,
              static_cast<Word*>(job.out().raw_data()), filters, padded);
}

template <class T>
void weight_gradient(const Job& job, const Flat& f, std::size_t smem) {
  const Geometry& g = job.g;
  const Tensor x = flat(job, f, *job.parts[static_cast<std::size_t>(Part::x)]);
  // The cotangent's pixels lie where those of y do.
  const Tensor dy = flat(job, f, *job.parts[static_cast<std::size_t>(Part::y)]);
  const std::int64_t tiles = gpu::ceil_div(g.filters, kFilters) * gpu::ceil_div(g.channels, kChannels);
  const std::int64_t parts = gpu::ceil_div(f.positions, kDepth);
  const std::int64_t splits = std::max<std::int64_t>(1, std::min(kWantedBlocks / tiles, parts));
  const std::int64_t size = job.out().numel();
  const Tensor partial = Tensor::allocate({splits, size}, DType::f32, job.out().device());
  gpu::launch(job.op, flat_weight_kernel<T>, gpu::blocks_for(job.op, tiles * splits, 1), kWeightThreads, smem,
              f, static_cast<const Word*>(x.raw_data()), static_cast<const Word*>(dy.raw_data()),
              partial.data<float>(), g.channels, x.size(1), g.filters, dy.size(1), splits);
  fold::sum_cuda(partial, 1, job.out().view({size}), 1, job.accumulate);
}

}  // namespace

bool run_flat(const Job& job) {
  const Geometry& g = job.g;
  const DType dtype = job.parts[0]->dtype();
  const bool of_weight = job.result == Part::weight;
  constexpr std::int64_t kFew = 16;  // of channels or filters, for which most of a tile would be zeros
  if (!is_low_precision(dtype) || g.groups != 1 || g.height.stride != 1 || g.width.stride != 1 ||
      std::min(g.channels, g.filters) < kFew || std::max(g.channels, g.filters) > (1 << 20) || g.batch == 0 ||
      (of_weight && (g.height.kernel != 3 || g.width.kernel != 3)))
    return false;
  Flat f;
  if (!lay_out(g, job.result == Part::x, f)) return false;
  const std::int64_t rows = of_weight ? 2 * (f.seen(kDepth) + kDepth) : f.seen(kPixels);
  const std::int64_t bytes = rows * Rows::row_bytes + (of_weight ? 0 : kStages * kFilterBytes);
  if (bytes > kMostShared) return false;
  const auto smem = static_cast<std::size_t>(bytes);
  const auto run = [&]<class T>() {
    of_weight ? weight_gradient<T>(job, f, smem) : convolve<T>(job, f, job.result == Part::x, smem);
  };
  dtype == DType::bf16 ? run.template operator()<BFloat16>() : run.template operator()<Half>();
  return true;
}

}  // namespace ct::convolution
