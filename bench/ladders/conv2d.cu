#include "bench/ladders/conv2d.h"
#include "bench/ladders/rows.cuh"

// Each number of x is used 9 times for each channel of y (conv2d.h has the formula). A multiply-add takes two numbers, and a
// multiprocessor has 128 units for them, but loads 32 numbers a cycle from shared memory: the rungs differ in how many
// multiply-adds a load serves.

namespace ct::ladder::conv2d {
namespace {

struct Operands {
  const float *x, *w;
  float* y;
  int in, out, side;

  /// Number (p, q) of a channel of x, 0 on the border.
  __device__ float at(int image, int c, int p, int q) const {
    const bool inside = c < in && p >= 0 && p < side && q >= 0 && q < side;
    return inside ? x[((static_cast<long>(image) * in + c) * side + p) * side + q] : 0;
  }
  __device__ void write(int image, int o, int p, int q, float v) const {
    if (o < out && p < side && q < side) y[((static_cast<long>(image) * out + o) * side + p) * side + q] = v;
  }
};
Operands operands(const Call& c) {
  return {c.input<float>(0),           c.input<float>(1),           c.output<float>(0),
          static_cast<int>(c.size(1)), static_cast<int>(c.size(2)), static_cast<int>(c.size(3))};
}

// Direct: a thread for each number of y, the definition. Two loads for each multiply-add, one of them the same for the whole warp,
// and the question for the border.
__global__ void __launch_bounds__(256) direct(Operands a) {
  const int i = static_cast<int>(blockIdx.x * 256 + threadIdx.x), p = i / a.side, q = i % a.side;
  const int o = static_cast<int>(blockIdx.y), image = static_cast<int>(blockIdx.z);
  if (p >= a.side) return;
  float sum = 0;
  for (int c = 0; c < a.in; ++c)
    for (int k = 0; k < 9; ++k)
      sum += a.at(image, c, p + k / 3 - 1, q + k % 3 - 1) * a.w[(o * a.in + c) * 9 + k];
  a.write(image, o, p, q, sum);
}

// Channels: a thread has one place of eight channels of y: a number of x, once loaded, serves eight multiply-adds.
__global__ void __launch_bounds__(256) channels(Operands a) {
  const int i = static_cast<int>(blockIdx.x * 256 + threadIdx.x), p = i / a.side, q = i % a.side;
  const int o = static_cast<int>(blockIdx.y) * 8, image = static_cast<int>(blockIdx.z);
  if (p >= a.side) return;
  float sum[8] = {};
  for (int c = 0; c < a.in; ++c)
    for (int k = 0; k < 9; ++k) {
      const float x = a.at(image, c, p + k / 3 - 1, q + k % 3 - 1);
#pragma unroll
      for (int n = 0; n < 8; ++n) sum[n] += x * a.w[(min(o + n, a.out - 1) * a.in + c) * 9 + k];
    }
  for (int n = 0; n < 8; ++n) a.write(image, o + n, p, q, sum[n]);
}

// Tiles: x and w of four channels at a time are brought to shared memory by the whole block, w so that the eight channels of a tap
// lie side by side, two loads of 16 bytes. Thread (lane, warp) has column `lane` and kRows rows of a tile of 32 columns.
// With one row, two loads of w and one of x serve eight multiply-adds; with four, the same two serve 32, and x is used again by
// the row below.
constexpr int kChannels = 4;
template <int kRows>
__global__ void __launch_bounds__(256) tiles(Operands a) {
  constexpr int kHeight = 8 * kRows + 2;
  __shared__ float x[kChannels][kHeight][34];
  __shared__ __align__(16) float w[kChannels][9][8];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, across = (a.side + 31) / 32;
  const int left = static_cast<int>(blockIdx.x) % across * 32,
            top = static_cast<int>(blockIdx.x) / across * (kHeight - 2);
  const int o = static_cast<int>(blockIdx.y) * 8, image = static_cast<int>(blockIdx.z);
  float sum[kRows][8] = {};
  for (int first = 0; first < a.in; first += kChannels) {
    __syncthreads();  // the last channels have been used
    for (int i = threadIdx.x; i < kChannels * kHeight * 34; i += 256)
      x[0][0][i] = a.at(image, first + i / (kHeight * 34), top + i / 34 % kHeight - 1, left + i % 34 - 1);
    for (int i = threadIdx.x; i < kChannels * 72; i += 256) {
      const int c = first + i / 72, k = i / 8 % 9, n = o + i % 8;
      w[0][0][i] = c < a.in && n < a.out ? a.w[(n * a.in + c) * 9 + k] : 0;
    }
    __syncthreads();
    for (int c = 0; c < kChannels; ++c)
#pragma unroll
      for (int k = 0; k < 9; ++k) {
        const float4 low = *reinterpret_cast<const float4*>(w[c][k]),
                     high = *reinterpret_cast<const float4*>(w[c][k] + 4);
        const float by[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const float v = x[c][warp * kRows + r + k / 3][lane + k % 3];
#pragma unroll
          for (int n = 0; n < 8; ++n) sum[r][n] += v * by[n];
        }
      }
  }
  for (int r = 0; r < kRows; ++r)
    for (int n = 0; n < 8; ++n) a.write(image, o + n, top + warp * kRows + r, left + lane, sum[r][n]);
}

dim3 grid(const Call& c, std::int64_t places, std::int64_t each) {
  return {static_cast<unsigned>(places), static_cast<unsigned>(gpu::ceil_div(c.size(2), each)),
          static_cast<unsigned>(c.size(0))};
}
void run_direct(const Call& c) {
  launch256(direct, grid(c, gpu::ceil_div(c.size(3) * c.size(3), 256), 1), operands(c));
}
void run_channels(const Call& c) {
  launch256(channels, grid(c, gpu::ceil_div(c.size(3) * c.size(3), 256), 8), operands(c));
}
template <int kRows>
void run_tiles(const Call& c) {
  launch256(tiles<kRows>, grid(c, gpu::ceil_div(c.size(3), 32) * gpu::ceil_div(c.size(3), 8 * kRows), 8),
            operands(c));
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cuda);
  ladder.timed = {{f32, {64, 64, 64, 64}}};
  ladder.rungs = {
      {"direct", "a thread for each number of y: two loads for a multiply-add", run_direct},
      {"channels", "a number of x serves eight channels", run_channels},
      {"tiles", "x and w in shared memory, eight weights by two loads", run_tiles<1>},
      {"rows", "four rows for each thread: the same two loads serve four times as many", run_tiles<4>}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::conv2d
