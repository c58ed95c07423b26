#include "bench/bench.h"

// C4: overhead of the library, on tensors of eight floats.

namespace {

using ct::bench::five_runs;

void add_plain(benchmark::State& state) {
  const ct::Tensor a = ct::ones({8}), b = ct::ones({8});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_plain)->Name("C4/add_plain")->Apply(five_runs);

void add_recorded(benchmark::State& state) {
  const ct::Tensor a = ct::ones({8}).set_requires_grad(), b = ct::ones({8});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_recorded)->Name("C4/add_recorded")->Apply(five_runs);

void mul_sum_backward(benchmark::State& state) {
  ct::Tensor a = ct::ones({8}).set_requires_grad();
  const ct::Tensor b = ct::ones({8});
  for (auto _ : state) (a * b).sum().backward();
}
BENCHMARK(mul_sum_backward)->Name("C4/mul_sum_backward")->Apply(five_runs);

}  // namespace
