#include <vector>

#include "bench/bench.h"

// The limits that rates are held against, measured in the same run: what this processor and this GPU reach on
// nothing but multiply-adds, and on nothing but copying.

namespace {

using namespace ct::bench;

// Sixteen independent chains of fused multiply-adds, as wide as the compiler's target allows.
void fma_peak(benchmark::State& state) {
#if defined(__AVX512F__)
  constexpr int kLanes = 16;
#elif defined(__AVX2__)
  constexpr int kLanes = 8;
#else
  constexpr int kLanes = 4;
#endif
  typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
  constexpr int kChains = 16, kSteps = 1 << 16;
  const int threads = static_cast<int>(state.range(0));
  ct::set_num_threads(threads);
  for (auto _ : state) {
    ct::parallel_for(threads, 1, [](std::int64_t, std::int64_t) {
      Vector sum[kChains];
      for (int c = 0; c < kChains; ++c) sum[c] = Vector{} + static_cast<float>(c);
      const Vector a = Vector{} + 0.999999f, b = Vector{} + 1e-6f;
      for (int s = 0; s < kSteps; ++s) {
#pragma GCC unroll 16
        for (int c = 0; c < kChains; ++c) sum[c] = sum[c] * a + b;
      }
      for (int c = 1; c < kChains; ++c) sum[0] += sum[c];
      benchmark::DoNotOptimize(sum[0]);
    });
  }
  count_flops(state, 2.0 * kLanes * kChains * kSteps * threads);
}
BENCHMARK(fma_peak)->Name("limit/cpu_fma_t1")->Arg(1)->UseRealTime();
BENCHMARK(fma_peak)->Name("limit/cpu_fma_t2")->Arg(2)->UseRealTime();

void cpu_copy(benchmark::State& state) {
  const std::size_t n = std::size_t{1} << 28;
  std::vector<char> from(n, 1), to(n, 2);
  for (auto _ : state) {
    ct::parallel_for(static_cast<std::int64_t>(n), 1 << 22, [&](std::int64_t begin, std::int64_t end) {
      std::copy(from.begin() + begin, from.begin() + end, to.begin() + begin);
    });
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2.0 * static_cast<double>(n));
}
BENCHMARK(cpu_copy)->Name("limit/cpu_copy")->UseRealTime();

void gpu_copy(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const ct::Device gpu = ct::cuda(0);
  const ct::Tensor from = ct::randn({1 << 28}, {.device = gpu}), to = ct::empty({1 << 28}, {.device = gpu});
  time_device(state, gpu, 10,
              [&] { ct::copy_bytes(to.raw_data(), gpu, from.raw_data(), gpu, std::size_t{1} << 30); });
  count_bytes(state, 2.0 * (1 << 30));
}
BENCHMARK(gpu_copy)->Name("limit/gpu_copy_1GiB")->Iterations(15)->UseManualTime();

void gpu_gemm(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const ct::Device gpu = ct::cuda(0);
  const std::int64_t n = state.range(0);
  const ct::Tensor a = ct::randn({n, n}, {.dtype = ct::bf16, .device = gpu});
  const ct::Tensor b = ct::randn({n, n}, {.dtype = ct::bf16, .device = gpu});
  time_device(state, gpu, 10, [&] { ct::matmul(a, b.t()); });
  count_flops(state, 2.0 * static_cast<double>(n) * n * n);
}
BENCHMARK(gpu_gemm)->Name("limit/gpu_bf16_gemm_4096")->Arg(4096)->Iterations(15)->UseManualTime();
BENCHMARK(gpu_gemm)->Name("limit/gpu_bf16_gemm_8192")->Arg(8192)->Iterations(15)->UseManualTime();

}  // namespace
