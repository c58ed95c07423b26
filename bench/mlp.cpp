#include "bench/bench.h"

// Whole training steps of small perceptrons: forward, loss, backward, optimizer, zero_grad.

namespace {

using namespace ct::bench;
namespace nn = ct::nn;

// C2: 784-hidden-10, SGD, on the CPU.
void mlp_sgd_cpu(benchmark::State& state) {
  const std::int64_t hidden = state.range(0), batch = state.range(1);
  ct::manual_seed(0);
  nn::Sequential model(nn::Linear(784, hidden), nn::ReLU(), nn::Linear(hidden, 10));
  ct::optim::SGD sgd(model.parameters(), {.lr = 0.01});
  const ct::Tensor x = ct::randn({batch, 784}), y = ct::randint(0, 10, {batch});
  for (auto _ : state) {
    sgd.zero_grad();
    ct::cross_entropy(model.forward(x), y).backward();
    sgd.step();
  }
  count_flops(state, 6.0 * static_cast<double>(batch) * (784 + 10) * hidden -
                         2.0 * static_cast<double>(batch) * 784 * hidden);
}
BENCHMARK(mlp_sgd_cpu)->Name("C2/mlp_784-256-10_b64")->Args({256, 64})->Apply(five_runs)->UseRealTime();
BENCHMARK(mlp_sgd_cpu)->Name("C2b/mlp_784-256-10_b1")->Args({256, 1})->Apply(five_runs)->UseRealTime();

// G3: 784-hidden-hidden-10, Adam, on the GPU.
void mlp_adam_gpu(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const ct::Device gpu = ct::cuda(0);
  const std::int64_t hidden = state.range(0), batch = state.range(1);
  ct::manual_seed(0);
  nn::Sequential model(nn::Linear(784, hidden), nn::ReLU(), nn::Linear(hidden, hidden), nn::ReLU(),
                       nn::Linear(hidden, 10));
  model.to(gpu);
  ct::optim::Adam adam(model.parameters(), {.lr = 1e-3});
  const ct::Tensor x = ct::randn({batch, 784}, {.device = gpu}), y = ct::randint(0, 10, {batch}).to(gpu);
  time_wall(state, gpu, 200, [&] {
    adam.zero_grad();
    ct::cross_entropy(model.forward(x), y).backward();
    adam.step();
  });
}
BENCHMARK(mlp_adam_gpu)->Name("G3/mlp_h128_b64")->Args({128, 64})->Iterations(15)->UseManualTime();
BENCHMARK(mlp_adam_gpu)->Name("G3b/mlp_h512_b128")->Args({512, 128})->Iterations(15)->UseManualTime();
BENCHMARK(mlp_adam_gpu)->Name("G3c/mlp_h1024_b1024")->Args({1024, 1024})->Iterations(15)->UseManualTime();

}  // namespace
