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

// Tiles: x and w of four channels at a time are brought to shared memory by the whole block, w so that the weights of a tap lie
// side by side, a load of 16 bytes for four. A block has a tile of 8 x 32 places, a thread one place of kOutputs channels: with
// eight, one load of x and two of w serve eight multiply-adds; with 16, one and four serve 16, and what it takes to bring x is
// shared by twice as many.
constexpr int kChannels = 4;
template <int kOutputs>
__global__ void __launch_bounds__(256) tiles(Operands a) {
  __shared__ float x[kChannels][10][34];
  __shared__ __align__(16) float w[kChannels][9][kOutputs];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, across = (a.side + 31) / 32;
  const int left = static_cast<int>(blockIdx.x) % across * 32,
            top = static_cast<int>(blockIdx.x) / across * 8;
  const int o = static_cast<int>(blockIdx.y) * kOutputs, image = static_cast<int>(blockIdx.z);
  float sum[kOutputs] = {};
  for (int first = 0; first < a.in; first += kChannels) {
    __syncthreads();  // the last channels have been used
    for (int i = threadIdx.x; i < kChannels * 340; i += 256)
      x[i / 340][i / 34 % 10][i % 34] =
          a.at(image, first + i / 340, top + i / 34 % 10 - 1, left + i % 34 - 1);
    for (int i = threadIdx.x; i < kChannels * 9 * kOutputs; i += 256) {
      const int c = i / (9 * kOutputs), k = i / kOutputs % 9, n = i % kOutputs;
      w[c][k][n] = first + c < a.in && o + n < a.out ? a.w[((o + n) * a.in + first + c) * 9 + k] : 0;
    }
    __syncthreads();
    for (int c = 0; c < kChannels; ++c)
#pragma unroll
      for (int k = 0; k < 9; ++k) {
        const float v = x[c][warp + k / 3][lane + k % 3];
#pragma unroll
        for (int n = 0; n < kOutputs; n += 4) {
          const float4 by = *reinterpret_cast<const float4*>(&w[c][k][n]);
          sum[n] += v * by.x, sum[n + 1] += v * by.y, sum[n + 2] += v * by.z, sum[n + 3] += v * by.w;
        }
      }
  }
  for (int n = 0; n < kOutputs; ++n) a.write(image, o + n, top + warp, left + lane, sum[n]);
}

dim3 grid(const Call& c, std::int64_t places, std::int64_t each) {
  return {static_cast<unsigned>(places), static_cast<unsigned>(gpu::ceil_div(c.size(2), each)),
          static_cast<unsigned>(c.size(0))};
}
void run_direct(const Call& c) {
  launch256(direct, grid(c, gpu::ceil_div(c.size(3) * c.size(3), 256), 1), operands(c));
}
template <int kOutputs>
void run_tiles(const Call& c) {
  launch256(tiles<kOutputs>, grid(c, gpu::ceil_div(c.size(3), 32) * gpu::ceil_div(c.size(3), 8), kOutputs),
            operands(c));
}

const bool kAdded = [] {
  Ladder ladder = described(DeviceType::cuda);
  ladder.timed = {{f32, {64, 64, 64, 64}}};
  ladder.rungs = {{"direct", "a thread for each number of y: two loads for a multiply-add", run_direct},
                  {"tiles", "x and w in shared memory: three loads for eight multiply-adds", run_tiles<8>},
                  {"sixteen", "16 channels for each thread: five loads for 16", run_tiles<16>}};
  return add(std::move(ladder));
}();

}  // namespace
}  // namespace ct::ladder::conv2d
