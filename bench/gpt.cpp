#include "bench/bench.h"

// Whole training steps of GPTs: forward, loss, backward, gradient clipping, AdamW. On the GPU in bf16 by
// Autocast, with f32 parameters; tokens are random, dropout is off, as in the peer.

namespace {

using namespace ct::bench;
namespace nn = ct::nn;

struct Shape {
  std::int64_t vocabulary, length, layers, heads, width, batch;
};
constexpr Shape kGpt2_124M_b64{50304, 1024, 12, 12, 768, 64};
constexpr Shape kGpt2_124M_b32{50304, 1024, 12, 12, 768, 32};
constexpr Shape kGpt2_124M_b4{50304, 1024, 12, 12, 768, 4};
constexpr Shape kCharGpt{65, 256, 6, 6, 384, 64};
constexpr Shape kSmallGpt{65, 64, 4, 4, 128, 12};

class Training {
 public:
  Training(const Shape& shape, ct::Device device)
      : device_(device),
        model_(nn::models::Gpt2Config{.vocab_size = shape.vocabulary,
                                      .n_positions = shape.length,
                                      .n_embd = shape.width,
                                      .n_layer = shape.layers,
                                      .n_head = shape.heads,
                                      .embd_pdrop = 0,
                                      .attn_pdrop = 0,
                                      .resid_pdrop = 0,
                                      .device = device}),
        optimizer_(model_.parameters(), {.lr = 1e-4, .weight_decay = 0.1}),
        tokens_(ct::randint(0, shape.vocabulary, {shape.batch, shape.length}).to(device)),
        targets_(ct::randint(0, shape.vocabulary, {shape.batch, shape.length}).to(device)) {}

  void step() { step(tokens_, targets_); }
  void step(const ct::Tensor& tokens, const ct::Tensor& targets) {
    ct::Tensor loss;
    if (device_.is_cuda()) {
      const ct::Autocast guard(ct::bf16);
      loss = model_.loss(tokens, targets);
    } else {
      loss = model_.loss(tokens, targets);
    }
    loss.backward();
    ct::optim::clip_grad_norm_(model_.parameters(), 1.0);
    optimizer_.step();
    optimizer_.zero_grad();
  }
  // Steps that are replayed from the first one that a row times.
  auto captured() {
    auto made = ct::capture([this](const ct::Tensor& x, const ct::Tensor& y) { step(x, y); });
    while (made.replays() < 2) made(tokens_, targets_);
    return [this, made = std::move(made)]() mutable { made(tokens_, targets_); };
  }

 private:
  ct::Device device_;
  nn::models::Gpt2 model_;
  ct::optim::AdamW optimizer_;
  ct::Tensor tokens_, targets_;
};

// The floating-point operations of a step as they are usually counted: 6 per parameter and token, and the
// attention matrices.
double step_flops(const Shape& s) {
  const double parameters = static_cast<double>(s.vocabulary + s.length) * static_cast<double>(s.width) +
                            12.0 * static_cast<double>(s.layers * s.width) * static_cast<double>(s.width);
  const double attention = 12.0 * static_cast<double>(s.layers * s.width * s.length);
  return static_cast<double>(s.batch * s.length) * (6 * parameters + attention);
}

void gpt_gpu(benchmark::State& state, const Shape& shape, int steps, bool captured = false) {
  if (!needs_gpu(state)) return;
  const ct::Device gpu = ct::cuda(0);
  ct::manual_seed(0);
  ct::empty_cache(gpu);
  {
    Training training(shape, gpu);
    ct::reset_peak_stats(gpu);
    if (captured)
      time_wall(state, gpu, steps, training.captured());
    else
      time_wall(state, gpu, steps, [&] { training.step(); });
    state.counters["peak"] = static_cast<double>(ct::memory_stats(gpu).peak_in_use);
  }
  count_flops(state, step_flops(shape));
  ct::empty_cache(gpu);
}
// G4: a process from its start to the end of its first step. Another process of this program makes it, and prints when each of
// its parts was over.
void first_step_of_process(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  for (auto _ : state) {
    std::FILE* child = nullptr;
    state.SetIterationTime(seconds_of([&] {
      child = popen("exec /proc/$PPID/exe --first-step", "r");
      char part[32];
      double seconds = 0;
      while (child && std::fscanf(child, "%31s %lf", part, &seconds) == 2) state.counters[part] = seconds;
    }));
    if (!child || pclose(child) != 0) state.SkipWithError("no first step");
  }
}
BENCHMARK(first_step_of_process)->Name("G4/process_start_gpt2_124M_b4")->Iterations(3)->UseManualTime();

void gpt2_b64(benchmark::State& state) { gpt_gpu(state, kGpt2_124M_b64, 3); }
void gpt2_b32(benchmark::State& state) { gpt_gpu(state, kGpt2_124M_b32, 3); }
void char_gpt(benchmark::State& state) { gpt_gpu(state, kCharGpt, 40); }
void char_gpt_captured(benchmark::State& state) { gpt_gpu(state, kCharGpt, 40, true); }
void gpt2_b32_captured(benchmark::State& state) { gpt_gpu(state, kGpt2_124M_b32, 3, true); }
BENCHMARK(gpt2_b64)->Name("G1/gpt2_124M_bf16_b64_t1024")->Iterations(4)->UseManualTime();
BENCHMARK(gpt2_b32)->Name("G1/gpt2_124M_bf16_b32_t1024")->Iterations(4)->UseManualTime();
BENCHMARK(char_gpt)->Name("G2/chargpt_6l6h384_b64_t256")->Iterations(5)->UseManualTime();
BENCHMARK(char_gpt_captured)->Name("G2/chargpt_6l6h384_b64_t256@captured")->Iterations(5)->UseManualTime();
BENCHMARK(gpt2_b32_captured)->Name("G1/gpt2_124M_bf16_b32_t1024@captured")->Iterations(4)->UseManualTime();

// The same under a profiler, one for each few steps: what recording costs. Making the table is not in it.
void profiled(benchmark::State& state, const Shape& shape, ct::Device device, int steps) {
  if (device.is_cuda() && !needs_gpu(state)) return;
  ct::manual_seed(0);
  Training training(shape, device);
  for (int i = 0; i < 5; ++i) training.step();
  for (auto _ : state) {
    ct::Profiler profiler;
    state.SetIterationTime(seconds_of([&] {
                             for (int i = 0; i < steps; ++i) training.step();
                             ct::synchronize(device);
                           }) /
                           steps);
  }
}
void profiled_gpt2(benchmark::State& state) { profiled(state, kGpt2_124M_b32, ct::cuda(0), 3); }
void profiled_char_gpt(benchmark::State& state) { profiled(state, kCharGpt, ct::cuda(0), 40); }
void profiled_small_gpt(benchmark::State& state) { profiled(state, kSmallGpt, ct::cpu, 5); }
BENCHMARK(profiled_gpt2)->Name("profiled/gpt2_124M_bf16_b32_t1024")->Iterations(4)->UseManualTime();
BENCHMARK(profiled_char_gpt)->Name("profiled/chargpt_6l6h384_b64_t256")->Iterations(5)->UseManualTime();
BENCHMARK(profiled_small_gpt)->Name("profiled/gpt_4l4h128_b12_t64")->Apply(five_runs)->UseManualTime();

void small_gpt_cpu(benchmark::State& state) {
  ct::manual_seed(0);
  Training training(kSmallGpt, ct::cpu);
  for (int i = 0; i < 3; ++i) training.step();
  for (auto _ : state) training.step();
  count_flops(state, step_flops(kSmallGpt));
}
void small_gpt_cpu_captured(benchmark::State& state) {
  ct::manual_seed(0);
  Training training(kSmallGpt, ct::cpu);
  auto step = training.captured();
  for (auto _ : state) step();
  count_flops(state, step_flops(kSmallGpt));
}
BENCHMARK(small_gpt_cpu)->Name("C3/gpt_4l4h128_b12_t64")->Apply(five_runs)->UseRealTime();
BENCHMARK(small_gpt_cpu_captured)->Name("C3/gpt_4l4h128_b12_t64@captured")->Apply(five_runs)->UseRealTime();

}  // namespace

int ct::bench::first_step() {
  const auto start = std::chrono::steady_clock::now();
  const auto tell = [&](const char* part) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::printf("%s %.3f\n", part, taken.count());
  };
  const ct::Device gpu = ct::cuda_is_available() ? ct::cuda(0) : ct::cpu;
  ct::zeros({1}, {.device = gpu});
  ct::synchronize(gpu);
  tell("context");
  Training training(kGpt2_124M_b4, gpu);
  ct::synchronize(gpu);
  tell("model");
  training.step();
  ct::synchronize(gpu);
  tell("step");
  return 0;
}
