#include "bench/ladders/gemv.h"

#include <cotangent/core/cuda/launch.h>

// Matrix times vector on the GPU: each number of A is used once, so memory is the limit. m is a multiple of 256, k of 1024.

namespace ct::ladder::gemv {
namespace {

__device__ float sum_of_warp(float sum) {
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
  return sum;
}

// Rung "naive". A thread for each row: the threads of a warp walk along 32 rows at once, and each of their loads touches
// 32 lines of the cache for four bytes each. The other bytes of a line must stay in the cache for the next 31 steps.
__global__ void naive_kernel(const float* a, const float* x, float* y, int k) {
  const std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int p = 0; p < k; ++p) sum += a[i * k + p] * x[p];
  y[i] = sum;
}

// Rung "warps". A warp for each row: a load is 128 bytes side by side, all of which are used at once. The lanes' sums are
// added up at the end, by halves, in registers.
__global__ void warps_kernel(const float* a, const float* x, float* y, int k) {
  const std::int64_t i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  float sum = 0;
  for (int p = static_cast<int>(threadIdx.x) % 32; p < k; p += 32) sum += a[i * k + p] * x[p];
  sum = sum_of_warp(sum);
  if (threadIdx.x % 32 == 0) y[i] = sum;
}

// Rung "vectors". Memory answers after some 600 cycles; to keep it busy a multiprocessor must have about 40 KiB under way
// all that time. So loads are of 16 bytes, eight of them are asked for before the first is used, and past the cache, as
// they are not used again.
__global__ void vectors_kernel(const float4* a, const float4* x, float* y, int k) {
  constexpr int kAhead = 8;
  const int lane = static_cast<int>(threadIdx.x) % 32, row_4 = k / 4;
  const std::int64_t i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  a += i * row_4;
  float sum = 0;
  for (int p = lane; p < row_4; p += 32 * kAhead) {
    float4 part[kAhead];
#pragma unroll
    for (int s = 0; s < kAhead; ++s) part[s] = __ldcs(a + p + 32 * s);
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      const float4 b = x[p + 32 * s];
      sum += part[s].x * b.x + part[s].y * b.y + part[s].z * b.z + part[s].w * b.w;
    }
  }
  sum = sum_of_warp(sum);
  if (lane == 0) y[i] = sum;
}

unsigned rows(const Call& call, int each) { return static_cast<unsigned>(call.size(0) / each); }

void naive(const Call& call) {
  gpu::launch("gemv", naive_kernel, rows(call, 256), 256, 0, call.input<float>(0), call.input<float>(1),
              call.output<float>(0), static_cast<int>(call.size(1)));
}
void warps(const Call& call) {
  gpu::launch("gemv", warps_kernel, rows(call, 8), 256, 0, call.input<float>(0), call.input<float>(1),
              call.output<float>(0), static_cast<int>(call.size(1)));
}
void vectors(const Call& call) {
  gpu::launch("gemv", vectors_kernel, rows(call, 8), 256, 0, call.input<float4>(0), call.input<float4>(1),
              call.output<float>(0), static_cast<int>(call.size(1)));
}

const bool kAdded = ct::ladder::add({
    .name = "gemv",
    .what = kWhat,
    .device = DeviceType::cuda,
    .unit = Unit::bytes,
    .small = {{f32, {256, 1024}}, {f32, {512, 3072}}},
    .timed = {{f32, {16384, 16384}}},
    .work = work,
    .inputs = inputs,
    .plain = plain,
    .library = library,
    .library_name = "cuBLASLt",
    .rungs = {{"naive", "a thread for each row", naive},
              {"warps", "a warp for each row reads side by side", warps},
              {"vectors", "16 bytes a load, eight of them under way", vectors}},
});

}  // namespace
}  // namespace ct::ladder::gemv
