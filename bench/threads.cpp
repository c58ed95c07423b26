#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "bench/bench.h"

// T: cost and gain of threads, on the CPU.

namespace {

using namespace ct::bench;
namespace nn = ct::nn;

// T1: work for two, neither of whom goes on before the other has come: the time for a thread to get its share and for the
// caller to hear that it is done. After a pause the other thread sleeps.
void handover(benchmark::State& state) {
  if (ct::num_threads() < 2) return state.SkipWithError("one thread");
  const std::chrono::microseconds pause(state.range(0));
  for (auto _ : state) {
    if (pause.count() > 0) {
      state.PauseTiming();
      std::this_thread::sleep_for(pause);
      state.ResumeTiming();
    }
    std::atomic<int> arrived{0};
    ct::parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      ++arrived;
      while (arrived < 2) {}
    });
  }
}
BENCHMARK(handover)->Name("T1/handover")->Arg(0)->UseRealTime();
BENCHMARK(handover)->Name("T1/handover_to_a_sleeper")->Arg(1000)->Iterations(200)->UseRealTime();

// T2: models of their own in threads of their own. The time is that of one step of one model divided by the threads.
void models(benchmark::State& state) {
  const ct::NoThreads alone;
  nn::Sequential model(nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
  ct::optim::SGD sgd(model.parameters(), {.lr = 0.01});
  const ct::Tensor x = ct::ones({16, 784}), y = ct::zeros({16}, {.dtype = ct::DType::i64});
  for (auto _ : state) {
    sgd.zero_grad();
    ct::cross_entropy(model.forward(x), y).backward();
    sgd.step();
  }
  state.SetItemsProcessed(state.iterations());
}

// T3: the same for calls that are all overhead: C4's smallest ops.
void small_ops(benchmark::State& state) {
  ct::Tensor a = ct::ones({8}).set_requires_grad();
  const ct::Tensor b = ct::ones({8});
  for (auto _ : state) (a * b).sum().backward();
  state.SetItemsProcessed(state.iterations());
}

// Runs in 1, 2, 4, ... threads, up to one for each processor.
const bool threads_registered = [] {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int n = 1; n <= std::max(1, cores); n *= 2) {
    const std::string in = "_in_" + std::to_string(n) + "_threads";
    benchmark::RegisterBenchmark(("T2/models" + in).c_str(), models)->Threads(n)->UseRealTime();
    benchmark::RegisterBenchmark(("T3/mul_sum_backward" + in).c_str(), small_ops)->Threads(n)->UseRealTime();
  }
  return true;
}();

}  // namespace
