#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/convolution/upsample.h>
#include <cotangent/ops/creation/creation.h>

#include "bench/ladders/ladder.h"

// y[p, i, j] = x[p, i / 2, j / 2] for planes p: each element becomes a square of four. One byte read for four written, no
// arithmetic; the rate depends on where indices are computed, and on the width of the stores.

namespace ct::ladder::upsample_nearest2d {
namespace {

// Thread per output: element o of y finds its plane, row and column by dividing, as the formula reads. Stores are
// coalesced; the loads of two neighbouring lanes are one address. Three divisions of 64 bits, by numbers that are not
// known while compiling, are some 200 instructions for 4 bytes stored: the multiprocessors are busy, the memory waits.
__global__ void divide(const float* x, float* y, long planes, int height, int width) {
  const long o = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long w = 2L * width, h = 2L * height;
  if (o >= planes * h * w) return;
  const long j = o % w, i = o / w % h, p = o / w / h;
  y[o] = x[(p * height + i / 2) * width + j / 2];
}

// Rows by the grid: blocks have the row of y as their second index (planes and rows together: y's row r of all rows comes
// from x's row r / 2), and threads walk along it. No division is left but the shifts by 2.
__global__ void rows_by_grid(const float* x, float* y, long rows, int width) {
  const long r = static_cast<long>(blockIdx.y) + static_cast<long>(gridDim.y) * blockIdx.z;
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows && j < 2 * width) y[r * 2 * width + j] = x[r / 2 * width + j / 2];
}

// Thread per input: an element is read once and written four times, as two pairs of 8 bytes. A quarter of the threads, a
// quarter of the loads, half the stores.
__global__ void thread_per_input(const float* x, float* y, long rows, int width) {
  const long r = static_cast<long>(blockIdx.y) + static_cast<long>(gridDim.y) * blockIdx.z;
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows || j >= width) return;
  const float v = x[r * width + j];
  float2* to = reinterpret_cast<float2*>(y + r * 4 * width) + j;
  to[0] = {v, v};
  to[width] = {v, v};
}

// Vectors: two elements are read (8 bytes) and become two vectors of 16, one in each row of y. Stores are as wide as they
// can be and neighbouring lanes write neighbouring vectors: each store of a warp is four full lines. The width must be even.
__global__ void vectors(const float* x, float* y, long rows, int width) {
  const long r = static_cast<long>(blockIdx.y) + static_cast<long>(gridDim.y) * blockIdx.z;
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows || j >= width / 2) return;
  const float2 v = __ldcs(reinterpret_cast<const float2*>(x + r * width) + j);
  float4* to = reinterpret_cast<float4*>(y + r * 4 * width) + j;
  __stcs(to, float4{v.x, v.x, v.y, v.y});
  __stcs(to + width / 2, float4{v.x, v.x, v.y, v.y});
}

// ---- the ladder ----

// Rows of x (or y) along the grid's y and z, `width` threads along its x.
template <class Kernel>
void launch_rows(const Call& c, Kernel kernel, std::int64_t rows, std::int64_t width) {
  const auto high = static_cast<unsigned>(std::min<std::int64_t>(rows, 32'768));
  const dim3 grid(static_cast<unsigned>((width + 127) / 128), high,
                  static_cast<unsigned>((rows + high - 1) / high));
  ct::gpu::launch("ladder", kernel, grid, 128, 0, c.input<float>(0), c.output<float>(0), rows, c.size(2));
}
std::int64_t rows(const Call& c) { return c.size(0) * c.size(1); }

Tensors doubled(const Tensors& in) {
  const ct::Shape& s = in[0].shape();
  return {ct::upsample_nearest(in[0], {2 * s[2], 2 * s[3]})};
}

const bool kAdded = ct::ladder::add({
    .name = "upsample_nearest2d",
    .what = "y = x with each element a square of four; planes x height x width",
    .device = ct::DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{ct::f32, {3, 7, 34}}, {ct::f32, {20'001, 1, 2}}},
    .timed = {{ct::f32, {512, 256, 256}}},
    .work = [](const Case& c) { return 20.0 * static_cast<double>(c.size[0] * c.size[1] * c.size[2]); },
    .inputs = [](const Case& c) -> Tensors {
      return {ct::randn({1, c.size[0], c.size[1], c.size[2]})};
    },
    .plain = doubled,
    .library = doubled,
    .library_name = "ct::upsample_nearest",
    .rungs = {{"divide", "a thread for each output finds its place by dividing",
               [](const Call& c) {
                 ct::gpu::launch("ladder", divide,
                                 ct::gpu::blocks_for("ladder", 4 * rows(c) * c.size(2), 256), 256, 0,
                                 c.input<float>(0), c.output<float>(0), c.size(0), c.size(1), c.size(2));
               }},
              {"rows-by-grid", "the grid has the rows: nobody divides",
               [](const Call& c) { launch_rows(c, rows_by_grid, 2 * rows(c), 2 * c.size(2)); }},
              {"thread-per-input", "read once, stored as pairs",
               [](const Call& c) { launch_rows(c, thread_per_input, rows(c), c.size(2)); }},
              {"vectors", "two elements become two stores of 16 bytes",
               [](const Call& c) { launch_rows(c, vectors, rows(c), c.size(2) / 2); }}},
});

}  // namespace
}  // namespace ct::ladder::upsample_nearest2d
