#include "bench/bench.h"

#include <algorithm>

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
  const auto step = [&](const ct::Tensor& images, const ct::Tensor& labels) {
    sgd.zero_grad();
    ct::cross_entropy(model.forward(images), labels).backward();
    sgd.step();
  };
  auto captured = ct::capture(step);
  while (state.range(2) && captured.replays() < 2) captured(x, y);
  for (auto _ : state) state.range(2) ? captured(x, y) : step(x, y);
  count_flops(state, 6.0 * static_cast<double>(batch) * (784 + 10) * hidden -
                         2.0 * static_cast<double>(batch) * 784 * hidden);
}
BENCHMARK(mlp_sgd_cpu)->Name("C2/mlp_784-256-10_b64")->Args({256, 64, 0})->Apply(five_runs)->UseRealTime();
BENCHMARK(mlp_sgd_cpu)->Name("C2b/mlp_784-256-10_b1")->Args({256, 1, 0})->Apply(five_runs)->UseRealTime();
BENCHMARK(mlp_sgd_cpu)
    ->Name("C2b/mlp_784-256-10_b1@captured")
    ->Args({256, 1, 1})
    ->Apply(five_runs)
    ->UseRealTime();

// G3: 784-hidden-hidden-10, Adam, on the GPU. Captured ones are replayed.
struct GpuTraining {
  explicit GpuTraining(std::int64_t hidden, std::int64_t batch)
      : model((ct::manual_seed(0),
               nn::Sequential(nn::Linear(784, hidden), nn::ReLU(), nn::Linear(hidden, hidden), nn::ReLU(),
                              nn::Linear(hidden, 10)))),
        adam((model.to(gpu), model.parameters()), {.lr = 1e-3}),
        x(ct::randn({batch, 784}, {.device = gpu})),
        y(ct::randint(0, 10, {batch}).to(gpu)) {}
  void step(const ct::Tensor& images, const ct::Tensor& labels) {
    adam.zero_grad();
    ct::cross_entropy(model.forward(images), labels).backward();
    adam.step();
  }
  auto captured() {
    auto made = ct::capture([this](const ct::Tensor& a, const ct::Tensor& b) { step(a, b); });
    while (made.replays() < 2) made(x, y);
    return made;
  }

  const ct::Device gpu = ct::cuda(0);
  nn::Sequential model;
  ct::optim::Adam adam;
  ct::Tensor x, y;
};
void mlp_adam_gpu(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  GpuTraining t(state.range(0), state.range(1));
  if (state.range(2) == 0) return time_wall(state, t.gpu, 200, [&] { t.step(t.x, t.y); });
  auto step = t.captured();
  time_wall(state, t.gpu, 200, [&] { step(t.x, t.y); });
  state.counters["launches"] = static_cast<double>(step.launches());
}
void mlp_rows(benchmark::internal::Benchmark* row) { row->Iterations(15)->UseManualTime(); }
BENCHMARK(mlp_adam_gpu)->Name("G3/mlp_h128_b64")->Args({128, 64, 0})->Apply(mlp_rows);
BENCHMARK(mlp_adam_gpu)->Name("G3b/mlp_h512_b128")->Args({512, 128, 0})->Apply(mlp_rows);
BENCHMARK(mlp_adam_gpu)->Name("G3c/mlp_h1024_b1024")->Args({1024, 1024, 0})->Apply(mlp_rows);
BENCHMARK(mlp_adam_gpu)->Name("G3/mlp_h128_b64@captured")->Args({128, 64, 1})->Apply(mlp_rows);
BENCHMARK(mlp_adam_gpu)->Name("G3b/mlp_h512_b128@captured")->Args({512, 128, 1})->Apply(mlp_rows);
BENCHMARK(mlp_adam_gpu)->Name("G3c/mlp_h1024_b1024@captured")->Args({1024, 1024, 1})->Apply(mlp_rows);

// G3 by mlp_step_: so many steps in one launch; the time is that of one of them.
void mlp_step_gpu(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  GpuTraining t(128, 64);
  const std::int64_t k = state.range(0);
  std::vector<ct::Tensor> params, exp_avgs, exp_avg_sqs;
  for (const ct::Tensor& p : t.model.parameters()) {
    params.push_back(p.detach());
    exp_avgs.push_back(ct::zeros_like(params.back()));
    exp_avg_sqs.push_back(ct::zeros_like(params.back()));
  }
  const ct::Tensor steps = ct::zeros({1}, {.dtype = ct::i64, .device = t.gpu});
  const ct::Tensor x = t.x.repeat({k, 1, 1}), y = t.y.repeat({k, 1});
  auto step = ct::capture([&](const ct::Tensor& a, const ct::Tensor& b) {
    return ct::update::mlp_step_(params, exp_avgs, exp_avg_sqs, steps, a, b,
                                 {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8});
  });
  while (step.replays() < 2) step(x, y);
  time_wall(state, t.gpu, static_cast<int>(200 * k), [&, i = 0]() mutable {
    if (i++ % k == 0) step(x, y);
  });
  state.counters["launches"] = static_cast<double>(step.launches());
}
BENCHMARK(mlp_step_gpu)->Name("G3/mlp_h128_b64@cluster")->Arg(1)->Arg(16)->Apply(mlp_rows);

// K1: the host's time of a replay, without a wait for the device; of it that of the guards; and what the replays have grown.
void replay_host(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  GpuTraining t(128, 64);
  auto step = t.captured();
  int ready = 0;
  double least = 1;  // of ten rounds: one that was interrupted says nothing
  for (int round = 0; round < 10; ++round)
    least = std::min(least, seconds_of([&] {
                       for (int i = 0; i < 100; ++i) ready += step.ready(t.x, t.y);
                     }));
  state.counters["guards_ns"] = 1e7 * least;
  const std::size_t held = ct::memory_stats(t.gpu).in_use;
  for (auto _ : state) {
    ct::synchronize(t.gpu);
    state.SetIterationTime(seconds_of([&] {
                             for (int i = 0; i < 20; ++i) step(t.x, t.y);
                           }) /
                           20);
  }
  state.counters["grown_bytes"] =
      static_cast<double>(ct::memory_stats(t.gpu).in_use) - static_cast<double>(held);
  if (ready != 1000) state.SkipWithError("a call did not replay");
}
BENCHMARK(replay_host)->Name("K1/replay_host_mlp_h128")->Iterations(200)->UseManualTime();

// K1 on the CPU: the guards of one replay, of a perceptron of three layers with Adam.
void replay_guards(benchmark::State& state) {
  ct::manual_seed(0);
  nn::Sequential model(nn::Linear(8, 8), nn::ReLU(), nn::Linear(8, 8), nn::ReLU(), nn::Linear(8, 4));
  ct::optim::Adam adam(model.parameters(), {.lr = 1e-3});
  const ct::Tensor x = ct::randn({4, 8}), y = ct::randint(0, 4, {4});
  auto step = ct::capture([&](const ct::Tensor& a, const ct::Tensor& b) {
    adam.zero_grad();
    ct::cross_entropy(model.forward(a), b).backward();
    adam.step();
  });
  while (step.replays() < 2) step(x, y);
  for (auto _ : state)
    if (!step.ready(x, y)) return state.SkipWithError("a call would not replay");
}
BENCHMARK(replay_guards)->Name("K1/guards_mlp_cpu")->Apply(five_runs);

}  // namespace
