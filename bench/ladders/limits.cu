#include "bench/ladders/limits.h"

#include <cotangent/core/cuda/launch.h>

namespace ct::ladder {
namespace {

constexpr int kChains = 16, kSteps = 4096, kThreads = 256, kBlocks = 8;  // of a multiprocessor

__global__ void __launch_bounds__(kThreads) fma_kernel(float* out) {
  float sum[kChains];
  for (int c = 0; c < kChains; ++c) sum[c] = static_cast<float>(threadIdx.x + c);
#pragma unroll 1
  for (int s = 0; s < kSteps / 16; ++s)
#pragma unroll
    for (int u = 0; u < 16; ++u)
#pragma unroll
      for (int c = 0; c < kChains; ++c) sum[c] = sum[c] * 0.999999f + 1e-6f;
  for (int c = 1; c < kChains; ++c) sum[0] += sum[c];
  if (sum[0] == 12345.f) *out = sum[0];  // never
}

// Memory for a copy, kept for the life of the process.
struct Two {
  static constexpr std::size_t kBytes = std::size_t{1} << 30;
  void *from = nullptr, *to = nullptr;
  Two() {
    CT_CUDA_OP("limit", cudaMalloc(&from, kBytes));
    CT_CUDA_OP("limit", cudaMalloc(&to, kBytes));
    CT_CUDA_OP("limit", cudaMemset(from, 1, kBytes));
  }
};

}  // namespace

#if !COTANGENT_SM90A
double tensor_core_work() { return 0; }
#endif

double gpu_limit_work(Unit unit, DType dtype) {
  if (unit == Unit::bytes) {
    static const Two two;
    CT_CUDA_OP("limit", cudaMemcpyAsync(two.to, two.from, Two::kBytes, cudaMemcpyDeviceToDevice,
                                        gpu::native_stream()));
    return 2.0 * Two::kBytes;
  }
  const auto& properties = cuda_properties(current_cuda_device());
  if (dtype == DType::f16 || dtype == DType::bf16)
    return properties.compute_major == 9 ? tensor_core_work() : 0;
  if (dtype != DType::f32) return 0;
  const unsigned blocks = static_cast<unsigned>(kBlocks * gpu::multiprocessors());
  gpu::launch("limit", fma_kernel, blocks, kThreads, 0, nullptr);
  return 2.0 * kChains * kSteps * kThreads * blocks;
}

}  // namespace ct::ladder
