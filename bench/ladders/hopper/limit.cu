#include <cotangent/core/cuda/launch.h>
#include <cotangent/core/cuda/mma/hopper_tile.cuh>

#include "bench/ladders/limits.h"

// Peak rate of Hopper's tensor cores: products of 16-bit operands that are in shared memory already.

namespace ct::ladder {
namespace {

constexpr int kSteps = 4096, kGroups = 2;

__global__ void __launch_bounds__(128 * kGroups) product_kernel(float* out) {
  using namespace ct::mma;
  extern __shared__ uint4 memory[];
  const std::uint32_t tile = (shared_address(memory) + 1023) & ~1023u;
  // Numbers like those of a product: zeros take less power, and more turns.
  for (std::uint32_t i = threadIdx.x; i < 48 * 1024 / 4; i += blockDim.x) {
    const std::uint32_t bits = (i * 2654435761u) & 0x007f007fu;
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(tile + 4 * i),
                 "r"(bits | ((i & 1) != 0 ? 0xbf803f80u : 0x3f80bf80u)));
  }
  async_proxy_fence();
  __syncthreads();
  const std::uint32_t a = tile + static_cast<std::uint32_t>(threadIdx.x / 128) * 8192, b = tile + 16384;
  float sums[128] = {};
  for (int step = 0; step < kSteps; ++step) {
    products_begin();
#pragma unroll
    for (int p = 0; p < 4; ++p)
      product<BFloat16, 0, 0, 256>(sums, operand(a + 32 * p), operand(b + 32 * p), 1);
    products_commit();
    products_wait<1>();
  }
  products_wait<0>();
  pin(sums);
  if (sums[0] == 12345.f) *out = sums[0];  // never
}

}  // namespace

double tensor_core_work() {
  const int blocks = gpu::multiprocessors();
  gpu::launch("limit", product_kernel, static_cast<unsigned>(blocks), 128 * kGroups, 50 * 1024, nullptr);
  return 2.0 * 64 * 256 * 16 * 4 * kSteps * kGroups * blocks;
}

}  // namespace ct::ladder
