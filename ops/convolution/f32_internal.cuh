#pragma once

#include <algorithm>
#include <cstdint>

#include <cotangent/ops/convolution/patches_internal.h>
#include <cotangent/core/cuda/mma/ptx.cuh>
#include <cotangent/ops/engine/gemm/lanes_internal.cuh>

// A part of a convolution as a product of matrices (patches_internal.h), in f32. A block computes a tile of C. Copies bring
// kDepth elements of k of A and of B into shared memory, some stages ahead of the threads, which multiply 8 x 8 elements each.

namespace ct::convolution {

/// A tile of C by 128 threads, of which kParts groups share the depth of a stage. A lane has kM x kN elements, the kLanesM x
/// kLanesN lanes of a warp one piece of the tile.
template <int kRows_, int kColumns_, int kN_, int kParts_, int kDepth_, int kStages_>
struct TileF32 {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kM = 8, kN = kN_, kThreads = 128;
  static constexpr int kParts = kParts_, kDepth = kDepth_, kStages = kStages_;
  static constexpr int kLanesM = kRows / kM, kLanesN = 32 / kLanesM, kWarpsN = kColumns / (kLanesN * kN);
  static_assert(kWarpsN * kParts * 32 == kThreads);
  // The rows of A of one k lie side by side, and so do the columns of B: quads of them go to a lane. A quad more keeps copies in
  // different banks.
  static constexpr int kPitchA = kRows + 4, kPitchB = kColumns + 4;
  static constexpr int kFloatsA = kDepth * kPitchA, kFloats = kFloatsA + kDepth * kPitchB;
  static constexpr std::size_t kBytes =
      sizeof(float) * static_cast<std::size_t>(std::max(kStages * kFloats, (kParts - 1) * kRows * kColumns));
};
using F32Tile = TileF32<64, 128, 8, 1, 16, 3>;
using WideF32Tile = TileF32<32, 256, 8, 1, 16, 2>;  // for up to 32 filters or channels
using SmallF32Tile = TileF32<32, 32, 4, 4, 32, 3>;  // for the gradient of few weights

/// Whether fours of n of C lie together, and can be written at once.
inline bool c_is_in_quads(const Product& p) {
  return reinterpret_cast<std::uintptr_t>(p.c) % 16 == 0 && p.c_group % 4 == 0 && p.c_split % 4 == 0 &&
         p.c_row % 4 == 0 && p.c_outer % 4 == 0 && p.c_inner.divisor % 4 == 0 && p.n % 4 == 0;
}

/// A tap as the copies of B want it. Where k counts taps, `row` has a bit for the tap's row and one for its column, and a pixel a
/// mask of those that it sees inside of the image.
struct alignas(16) F32Tap {
  int offset, row, column;
};
inline constexpr int kMostKernel = 15;  // rows, and columns, that a mask has bits for

/// Whether the kernel is for such patches.
inline bool fits_f32(const Product& p) {
  const Patches& b = p.patches;
  const std::int64_t rows = b.taps.divisor / b.kernel_width.divisor;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const std::int64_t reach = (std::abs(rows * b.step_row) + 1) * (std::int64_t{b.seen_width} + 1) +
                             std::abs(std::int64_t{b.kernel_width.divisor} * b.step_column);
  return !b.strided && rows <= kMostKernel && b.kernel_width.divisor <= kMostKernel && reach < kMost &&
         b.image < kMost;
}

template <class T, bool kWeightGradient>
__global__ void __launch_bounds__(T::kThreads) f32_kernel(const __grid_constant__ Product p, bool quads) {
  constexpr int kThreads = T::kThreads, kDepth = T::kDepth, kRows = T::kRows, kColumns = T::kColumns;
  constexpr int kTaps = kWeightGradient ? kColumns : kDepth;
  extern __shared__ __align__(16) float memory[];
  __shared__ F32Tap taps[kWeightGradient ? 1 : 2][kTaps];

  const auto [m0, n0, group, split, k_first, k_end] = p.block(blockIdx.x, kRows, kColumns);
  const int stages = static_cast<int>((k_end - k_first + kDepth - 1) / kDepth);
  const int thread = static_cast<int>(threadIdx.x);
  const float* const a = static_cast<const float*>(p.a) + group * p.a_group;
  const float* const b = static_cast<const float*>(p.b) + group * p.b_group;

  const auto place_of = [](const float* tile, int k, int pitch, int line) {
    return mma::shared_address(tile) + static_cast<std::uint32_t>(k * pitch + line) * 4;
  };
  // Elements that a thread copies along k: one k of every hop-th line.
  constexpr int hop = kThreads / kDepth;
  const int along = thread % kDepth, line = thread / kDepth;
  const Patches& patches = p.patches;
  const auto note_taps = [&](int stage) {
    const std::uint32_t k = kWeightGradient ? n0 + thread : k_first + stage * kDepth + thread;
    if (thread >= kTaps) return;
    F32Tap& tap = taps[kWeightGradient ? 0 : stage % 2][thread];
    const bool there = k < (kWeightGradient ? p.n : k_end);
    const Place place = there ? patches.tap(k) : kNowhere;
    if constexpr (kWeightGradient) {
      tap = {static_cast<int>(place.offset), place.row, place.column};
    } else {
      const std::uint32_t i = k - patches.taps.divide(k) * patches.taps.divisor,
                          row = patches.kernel_width.divide(i);
      tap = {static_cast<int>(place.offset),
             there ? 1 << row | 1 << (16 + i - row * patches.kernel_width.divisor) : -1, 0};
    }
  };
  // Where k counts taps a thread copies what one pixel, or a few, see under each of them.
  constexpr int kPixels = kWeightGradient ? 1 : kColumns / kThreads;
  const float* seen_by[kPixels];  // the element at its place
  int mask[kPixels] = {};
#pragma unroll
  for (int i = 0; i < kPixels; ++i) {
    const std::uint32_t n = n0 + thread + i * kThreads;
    seen_by[i] = b;
    if (kWeightGradient || n >= p.n) continue;
    const Place pixel = patches.pixel(n);
    seen_by[i] = b + pixel.offset;
    const int rows = static_cast<int>(patches.taps.divisor / patches.kernel_width.divisor);
    for (int r = 0; r < rows; ++r)
      if (patches.row_is_inside(pixel.row + r * patches.step_row)) mask[i] |= 1 << r;
    for (int c = 0; c < static_cast<int>(patches.kernel_width.divisor); ++c)
      if (patches.column_is_inside(pixel.column + c * patches.step_column)) mask[i] |= 1 << (16 + c);
  }

  const auto start = [&](int stage) {
    if (stage < stages) {
      float* const to_a = memory + stage % T::kStages * T::kFloats;
      float* const to_b = to_a + T::kFloatsA;
      const std::uint32_t k = k_first + stage * kDepth + along;
      const bool there = k < k_end;
      const float* from_a = a + (there ? p.a_at(k) : 0) + (m0 + line) * p.a_row;
#pragma unroll
      for (int i = 0; i < kRows / hop; ++i, from_a += hop * p.a_row)
        mma::copy_async_4(place_of(to_a, along, T::kPitchA, line + i * hop), from_a,
                          there && m0 + line + i * hop < p.m);
      if constexpr (kWeightGradient) {
        const Place pixel = there ? patches.pixel(k) : kNowhere;
        const float* const from = b + pixel.offset;
#pragma unroll
        for (int i = 0; i < kColumns / hop; ++i) {
          const F32Tap tap = taps[0][line + i * hop];
          mma::copy_async_4(place_of(to_b, along, T::kPitchB, line + i * hop), from + tap.offset,
                            patches.row_is_inside(pixel.row + tap.row) &&
                                patches.column_is_inside(pixel.column + tap.column));
        }
      } else {
#pragma unroll
        for (int i = 0; i < kDepth; ++i) {
          const F32Tap tap = taps[stage % 2][i];
#pragma unroll
          for (int j = 0; j < kPixels; ++j)
            mma::copy_async_4(place_of(to_b, i, T::kPitchB, thread + j * kThreads), seen_by[j] + tap.offset,
                              (mask[j] & tap.row) == tap.row);
        }
      }
    }
    mma::copy_async_commit();
    if (!kWeightGradient) note_taps(stage + 1);
  };
  note_taps(0);
  for (int s = 0; s < T::kStages - 1; ++s) {
    if (s == 0 || !kWeightGradient) __syncthreads();
    start(s);
  }

  const int warp = thread / 32, lane = thread % 32, part = warp / T::kWarpsN;
  const int lane_m = lane / T::kLanesN, lane_n = lane % T::kLanesN;
  const int column0 = warp % T::kWarpsN * T::kLanesN * T::kN;
  constexpr int kOwn = kDepth / T::kParts;  // elements of k of a stage that a part has
  float sums[T::kM][T::kN] = {};
  for (int s = 0; s < stages; ++s) {
    mma::copy_async_wait<T::kStages - 2>();
    __syncthreads();
    start(s + T::kStages - 1);
    const float* const at_a = memory + s % T::kStages * T::kFloats;
    const float* const at_b = at_a + T::kFloatsA + column0;
#pragma unroll
    for (int k = 0; k < kOwn; k += 4) {
      float x[4][T::kM], y[4][T::kN];
      gemm::read_lines<false, T::kPitchA, T::kLanesM>(x, at_a, lane_m, part * kOwn + k);
      gemm::read_lines<false, T::kPitchB, T::kLanesN>(y, at_b, lane_n, part * kOwn + k);
#pragma unroll
      for (int d = 0; d < 4; ++d)
#pragma unroll
        for (int i = 0; i < T::kM; ++i)
#pragma unroll
          for (int n = 0; n < T::kN; ++n) {
            // To and fro: each multiplication has an operand of the one before, which need not be read again.
            const int j = i % 2 ? T::kN - 1 - n : n;
            sums[i][j] = fmaf(x[d][i], y[d][j], sums[i][j]);
          }
    }
  }
  mma::copy_async_wait<0>();

  if constexpr (T::kParts > 1) {  // the parts' sums, added in their order
    constexpr int own = kThreads / T::kParts, all = kRows * kColumns;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < T::kM * T::kN; ++e)
      if (part > 0) memory[(part - 1) * all + e * own + thread % own] = sums[e / T::kN][e % T::kN];
    __syncthreads();
    if (part > 0) return;
#pragma unroll
    for (int other = 0; other < T::kParts - 1; ++other)
#pragma unroll
      for (int e = 0; e < T::kM * T::kN; ++e)
        sums[e / T::kN][e % T::kN] += memory[other * all + e * own + thread];
  }
  float* const c = static_cast<float*>(p.c) + group * p.c_group + split * p.c_split;
  const float* const bias = p.bias ? static_cast<const float*>(p.bias) + group * p.m : nullptr;
#pragma unroll
  for (int j = 0; j < T::kN; j += 4) {
    const std::uint32_t n = n0 + column0 + gemm::line_of<false, T::kLanesN>(lane_n, j, 4);
    float* to[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) to[e] = n + e < p.n ? c + p.c_at(n + e) : nullptr;
#pragma unroll
    for (int i = 0; i < T::kM; ++i) {
      const std::uint32_t m = m0 + gemm::line_of<false, T::kLanesM>(lane_m, i, 4);
      if (m >= p.m) continue;
      const float add = bias ? bias[m] : 0.f;
      float sum[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] = sums[i][j + e] + add;
      if (quads && to[0])
        *reinterpret_cast<float4*>(to[0] + m * p.c_row) = make_float4(sum[0], sum[1], sum[2], sum[3]);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (!quads && to[e]) to[e][m * p.c_row] = sum[e];
    }
  }
}

}  // namespace ct::convolution
