#include <cuda_bf16.h>

#include <cotangent/ops/normalization/layer_norm.h>

#include "bench/ladders/rows.cuh"

// y = (x - mean) / sqrt(variance + eps) * w + b for each row of bf16, sums in f32. As softmax, a row is wanted more than
// once (mean, variance, result); unlike it there is a shortcut that reads it once, and is wrong.

namespace ct::ladder::layer_norm {
namespace {

constexpr float kEps = 1e-5f;

// Thread per row: three loops over a row that no neighbour shares. Each of a warp's loads touches 32 lines for 2 bytes
// of each.
__global__ void thread_per_row(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* b,
                               __nv_bfloat16* y, long rows, int n) {
  const long row = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += row * n, y += row * n;
  float sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) sum += __bfloat162float(x[i]);
  const float mean = sum / n;
  for (int i = 0; i < n; ++i) squares += (__bfloat162float(x[i]) - mean) * (__bfloat162float(x[i]) - mean);
  const float scale = rsqrtf(squares / n + kEps);
  for (int i = 0; i < n; ++i)
    y[i] = __float2bfloat16((__bfloat162float(x[i]) - mean) * scale * __bfloat162float(w[i]) +
                            __bfloat162float(b[i]));
}

// Block per row: 256 threads side by side along the row, so accesses are coalesced (64 bytes a warp: these are two-byte
// elements). Mean first, then the squares of the deviations, then the result: three reads, two from the first-level cache.
__global__ void __launch_bounds__(256) block_per_row(const __nv_bfloat16* x, const __nv_bfloat16* w,
                                                     const __nv_bfloat16* b, __nv_bfloat16* y, int n) {
  x += static_cast<long>(blockIdx.x) * n, y += static_cast<long>(blockIdx.x) * n;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += __bfloat162float(x[i]);
  const float mean = block_sum(sum) / n;
  for (int i = threadIdx.x; i < n; i += 256) {
    const float d = __bfloat162float(x[i]) - mean;
    squares += d * d;
  }
  const float scale = rsqrtf(block_sum(squares) / n + kEps);
  for (int i = threadIdx.x; i < n; i += 256)
    y[i] = __float2bfloat16((__bfloat162float(x[i]) - mean) * scale * __bfloat162float(w[i]) +
                            __bfloat162float(b[i]));
}

// Sum of squares: variance = mean(x x) - mean(x)^2 needs one walk instead of two. It subtracts numbers of the size of
// mean^2 to find one of the size of the variance, so rows far from 0 lose their digits (cancellation). Where the mean is
// 1000 times the deviation, the f32 sum has hardly one left. It is here for its time, passes on rows near 0 and is not used
// by the library. The next rung shows that it isn't needed, either.
__global__ void __launch_bounds__(256) sum_of_squares(const __nv_bfloat16* x, const __nv_bfloat16* w,
                                                      const __nv_bfloat16* b, __nv_bfloat16* y, int n) {
  x += static_cast<long>(blockIdx.x) * n, y += static_cast<long>(blockIdx.x) * n;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += 256) {
    const float v = __bfloat162float(x[i]);
    sum += v, squares += v * v;
  }
  const float mean = block_sum(sum) / n;
  const float scale = rsqrtf(fmaxf(block_sum(squares) / n - mean * mean, 0.f) + kEps);
  for (int i = threadIdx.x; i < n; i += 256)
    y[i] = __float2bfloat16((__bfloat162float(x[i]) - mean) * scale * __bfloat162float(w[i]) +
                            __bfloat162float(b[i]));
}

// Eight elements in 16 bytes.
struct alignas(16) Eight {
  __nv_bfloat162 pair[4];
  __device__ float2 at(int i) const { return __bfloat1622float2(pair[i]); }
};

// Warp per row: a row of 1024 is 4 vectors of 8 elements for each lane. It is read once, by 16 bytes, and stays in
// registers, packed; mean and squares are two honest walks over registers, and ten shuffles, without a barrier. w and b are
// the same for all rows and come from the caches; they are read as vectors when they are used, since eight rows per block
// share nothing else that would pay for keeping them.
template <int kVectors>
__global__ void __launch_bounds__(256)
    warp_per_row(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* b, __nv_bfloat16* y,
                 long rows, int n) {
  const long row = static_cast<long>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = threadIdx.x % 32, packs = n / 8;
  const Eight* from = reinterpret_cast<const Eight*>(x + row * n);
  Eight v[kVectors] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
    if (lane + 32 * k < packs)
      *reinterpret_cast<uint4*>(&v[k]) = __ldcs(reinterpret_cast<const uint4*>(from) + lane + 32 * k);
  float sum = 0, squares = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
    for (int i = 0; i < 4; ++i) sum += v[k].at(i).x + v[k].at(i).y;
  const float mean = warp_sum(sum) / n;
#pragma unroll
  for (int k = 0; k < kVectors; ++k)
    for (int i = 0; i < 4 && lane + 32 * k < packs; ++i) {
      const float d = v[k].at(i).x - mean, e = v[k].at(i).y - mean;
      squares += d * d + e * e;
    }
  const float scale = rsqrtf(warp_sum(squares) / n + kEps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (lane + 32 * k >= packs) break;
    const Eight ww = reinterpret_cast<const Eight*>(w)[lane + 32 * k];
    const Eight bb = reinterpret_cast<const Eight*>(b)[lane + 32 * k];
    for (int i = 0; i < 4; ++i) {
      const float2 a = v[k].at(i), c = ww.at(i), d = bb.at(i);
      v[k].pair[i] =
          __floats2bfloat162_rn((a.x - mean) * scale * c.x + d.x, (a.y - mean) * scale * c.y + d.y);
    }
    __stcs(reinterpret_cast<uint4*>(y + row * n) + lane + 32 * k, *reinterpret_cast<const uint4*>(&v[k]));
  }
}

// ---- the ladder ----

const __nv_bfloat16* in(const Call& c, int i) { return c.input<__nv_bfloat16>(i); }
template <class Kernel>
void block_each(const Call& c, Kernel kernel) {
  ct::gpu::launch("ladder", kernel, static_cast<unsigned>(c.size(0)), 256, 0, in(c, 0), in(c, 1), in(c, 2),
                  c.output<__nv_bfloat16>(0), c.size(1));
}
template <class Kernel>
void rows_each(const Call& c, Kernel kernel, unsigned threads, std::int64_t rows) {
  ct::gpu::launch("ladder", kernel, ct::gpu::blocks_for("ladder", c.size(0), rows), threads, 0, in(c, 0),
                  in(c, 1), in(c, 2), c.output<__nv_bfloat16>(0), c.size(0), c.size(1));
}

Tensors normalized(const Tensors& in) { return {ct::layer_norm(in[0], in[1], in[2], kEps)}; }

const std::vector<ct::DType> kBf16 = {ct::bf16};
const bool kAdded = ct::ladder::add({
    .name = "layer_norm",
    .what = "y = layer_norm(x) w + b, rows x their length",
    .device = ct::DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{ct::bf16, {37, 1000}}, {ct::bf16, {3, 8}}},
    .timed = {{ct::bf16, {131'072, 1024}}},
    .work =
        [](const Case& c) { return 4.0 * static_cast<double>(c.size[0]) * static_cast<double>(c.size[1]); },
    .inputs = [](const Case& c) -> Tensors {
      return {ct::randn({c.size[0], c.size[1]}), ct::randn({c.size[1]}), ct::randn({c.size[1]})};
    },
    .plain = normalized,
    .library = normalized,
    .library_name = "ct::layer_norm",
    .rungs = {{"thread-per-row", "three loops, as for a CPU",
               [](const Call& c) { rows_each(c, thread_per_row, 64, 64); }, kBf16},
              {"block-per-row", "a row's threads side by side: coalesced, three reads",
               [](const Call& c) { block_each(c, block_per_row); }, kBf16},
              {"sum-of-squares", "one walk for both sums; loses the digits of rows far from 0",
               [](const Call& c) { block_each(c, sum_of_squares); }, kBf16},
              {"warp-per-row", "the row stays in a warp's registers: one read by 16 bytes, no barrier",
               [](const Call& c) { rows_each(c, warp_per_row<4>, 256, 8); }, kBf16}},
});

}  // namespace
}  // namespace ct::ladder::layer_norm
