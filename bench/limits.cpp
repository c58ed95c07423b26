#include <algorithm>

#include "bench/bench.h"
#include "bench/limits.h"

// The limits that rates are held against, measured in the same run: the rates of this processor and this GPU
// for multiply-adds alone, and for copying alone.

namespace {

using namespace ct::bench;

// Measured with the run's number of threads.
void fma_peak(benchmark::State& state) {
  double flops = 0;
  for (auto _ : state) flops = fma_work(ct::num_threads());
  count_flops(state, flops);
}
BENCHMARK(fma_peak)->Name("limit/cpu_fma")->Apply(five_runs)->UseRealTime();

// Plain and streaming stores in turn; the shorter time counts. The caches decide which are faster.
void cpu_copy(benchmark::State& state) {
  const std::int64_t n = state.range(0) << 20;
  const ct::Tensor from = ct::ones({n}, {.dtype = ct::u8}), to = ct::zeros({n}, {.dtype = ct::u8});
  const auto run = [&](Stores stores) {
    copy_work(static_cast<const char*>(from.raw_data()), static_cast<char*>(to.raw_data()), n, stores);
  };
  for (auto _ : state) {
    state.SetIterationTime(
        std::min(seconds_of([&] { run(Stores::plain); }), seconds_of([&] { run(Stores::streaming); })));
  }
  count_bytes(state, 2.0 * static_cast<double>(n));
}
BENCHMARK(cpu_copy)->Name("limit/cpu_copy")->Arg(256)->Apply(five_runs)->UseManualTime();
BENCHMARK(cpu_copy)->Name("limit/cpu_copy_64MiB")->Arg(64)->Apply(five_runs)->UseManualTime();
BENCHMARK(cpu_copy)->Name("limit/cpu_copy_32MiB")->Arg(32)->Apply(five_runs)->UseManualTime();
BENCHMARK(cpu_copy)->Name("limit/cpu_copy_16MiB")->Arg(16)->Apply(five_runs)->UseManualTime();
BENCHMARK(cpu_copy)->Name("limit/cpu_copy_8MiB")->Arg(8)->Apply(five_runs)->UseManualTime();

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
