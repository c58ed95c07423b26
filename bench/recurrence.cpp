#include "bench/bench.h"

// Training steps of one LSTM layer: forward, and back from its last state.

namespace {

using namespace ct::bench;
namespace nn = ct::nn;

struct Lstm {
  nn::LSTM layer;
  ct::Tensor x;

  Lstm(std::int64_t size, std::int64_t batch, std::int64_t steps, ct::DType dtype, ct::Device device)
      : layer(size, size, {.dtype = dtype, .device = device}),
        x(ct::randn({steps, batch, size}, {.dtype = dtype, .device = device}).set_requires_grad()) {}
  void step() {
    layer.zero_grad();
    x.set_grad({});
    const auto [y, state] = layer.forward(x);
    y.sum().backward();
  }
  double flops() const {
    const double size = static_cast<double>(x.size(2));
    return 3 * 2 * static_cast<double>(x.size(0) * x.size(1)) * 8 * size * size;
  }
};

void lstm_gpu(benchmark::State& state, ct::DType dtype) {
  if (!needs_gpu(state)) return;
  Lstm lstm(512, 64, 128, dtype, ct::cuda(0));
  time_wall(state, ct::cuda(0), 10, [&] { lstm.step(); });
  count_flops(state, lstm.flops());
}
BENCHMARK_CAPTURE(lstm_gpu, , ct::bf16)->Name("R1/lstm512_bf16_b64_t128")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(lstm_gpu, , ct::f32)->Name("R1/lstm512_f32_b64_t128")->Iterations(15)->UseManualTime();

void lstm_cpu(benchmark::State& state) {
  Lstm lstm(128, 16, 64, ct::f32, ct::cpu);
  for (auto _ : state) lstm.step();
  count_flops(state, lstm.flops());
}
BENCHMARK(lstm_cpu)->Name("R2/lstm128_b16_t64")->Apply(five_runs)->UseRealTime();

}  // namespace
