#include <vector>

#include "bench/bench.h"
#include "bench/limits.h"

// The limits that rates are held against, measured in the same run: what this processor and this GPU reach on
// nothing but multiply-adds, and on nothing but copying.

namespace {

using namespace ct::bench;

void fma_peak(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  ct::set_num_threads(threads);
  double flops = 0;
  for (auto _ : state) flops = fma_work(threads);
  count_flops(state, flops);
}
BENCHMARK(fma_peak)->Name("limit/cpu_fma_t1")->Arg(1)->UseRealTime();
BENCHMARK(fma_peak)->Name("limit/cpu_fma_t2")->Arg(2)->UseRealTime();

void cpu_copy(benchmark::State& state) {
  const std::size_t n = std::size_t{1} << 28;
  const std::vector<char> from(n, 1);
  std::vector<char> to(n, 2);
  double bytes = 0;
  for (auto _ : state) bytes = copy_work(from.data(), to.data(), static_cast<std::int64_t>(n));
  count_bytes(state, bytes);
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
