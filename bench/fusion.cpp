#include "bench/bench.h"

#include <vector>

#include <cotangent/nn/capture/capture.h>

// F2: a chain of ten ops element by element and its gradients on the CPU, as one fused op, as a captured step, and one by one: arithmetic alone, and
// with two functions. Three tensors of 2^24 numbers are read, and three gradients written.

namespace {

using namespace ct::bench;
using ct::Tensor;

constexpr auto kArithmetic = [](auto x, auto w, auto b) {
  const auto h = relu(x * w + b) * 1.5 - x;
  return square(h) * w + abs(h) - b;
};
constexpr auto kFunctions = [](auto x, auto w, auto b) {
  const auto h = x * w + b;
  return square(relu(tanh(h * sigmoid(h)) + x) * 1.5 - w);
};

// The gradients of f for three tensors.
template <class F, class Use>
void on_cpu(F f, Use&& use) {
  const ct::Shape shape{1 << 12, 1 << 12};
  Tensor in[] = {numbers(0, shape).clone(), numbers(0, shape) * 0.5, numbers(0, shape) + 0.25};
  for (Tensor& t : in) t.set_requires_grad();
  const Tensor g = ct::ones(shape);
  use([&] { return ct::grad({f(in[0], in[1], in[2])}, {in[0], in[1], in[2]}, {g}); });
}
template <class F>
void chain_row(benchmark::State& state, F f) {
  on_cpu(f, [&](auto step) {
    step();
    for (auto _ : state) benchmark::DoNotOptimize(step());
  });
}
template <class F>
void captured_row(benchmark::State& state, F f) {
  on_cpu(f, [&](auto gradients) {
    auto step = ct::capture(gradients);
    for (int i = 0; i < 4; ++i) step();
    for (auto _ : state) benchmark::DoNotOptimize(step());
  });
}

void arithmetic(benchmark::State& state) { chain_row(state, ct::fuse(kArithmetic)); }
void arithmetic_apart(benchmark::State& state) { chain_row(state, kArithmetic); }
void arithmetic_captured(benchmark::State& state) { captured_row(state, kArithmetic); }
void functions_captured(benchmark::State& state) { captured_row(state, kFunctions); }
void functions(benchmark::State& state) { chain_row(state, ct::fuse(kFunctions)); }
void functions_apart(benchmark::State& state) { chain_row(state, kFunctions); }

// F3: rows between formulas on the CPU, forward, as a captured step: with their formulas, and each call by itself.
template <class F>
void rows_row(benchmark::State& state, F f) {
  const ct::NoGrad off;
  const ct::Shape shape{1 << 13, 1 << 11};
  const Tensor x = numbers(0, shape), w = numbers(0, shape) * 0.5;
  auto step = ct::capture([&] { return f(x, w); }, {.fuse = state.range(0) == 1});
  for (int i = 0; i < 4; ++i) step();
  for (auto _ : state) benchmark::DoNotOptimize(step());
}
void norm_rows(benchmark::State& state) {
  rows_row(state, [](const Tensor& x, const Tensor& w) { return relu(layer_norm(x * w + x)); });
}
void softmax_rows(benchmark::State& state) {
  rows_row(state, [](const Tensor& x, const Tensor& w) { return softmax(x * 0.5 + w, -1) * w; });
}
void mean_rows(benchmark::State& state) {
  rows_row(state, [](const Tensor& x, const Tensor& w) { return mean(square(x - w), -1); });
}
void mean_of_all_rows(benchmark::State& state) {
  rows_row(state, [](const Tensor& x, const Tensor& w) { return mean(square(x - w)); });
}
void cross_entropy_rows(benchmark::State& state) {
  const Tensor labels = ct::randint(0, 1 << 11, {1 << 13});
  rows_row(state, [&](const Tensor& x, const Tensor&) { return cross_entropy(x * 0.5, labels); });
}

// F1: ten ops and their gradients on a GPU, of three tensors of 2^26 numbers: as a captured step, as one fused op, and one by one.
// `bytes` counts what has to move: three tensors and the cotangent are read, the result and three gradients written; the limit is
// a copy of as many bytes. `first` is the first call's time, from a formula that was never seen: cold where COTANGENT_CACHE is an
// empty folder, warm in a process behind that.
struct Chain {
  Tensor in[3], g;

  Chain() {
    const ct::TensorOptions on_gpu{.device = ct::cuda()};
    const ct::Shape shape{1 << 13, 1 << 13};
    for (Tensor& t : in) t = ct::randn(shape, on_gpu).set_requires_grad();
    g = ct::ones(shape, on_gpu);
  }
  template <class F>
  std::vector<Tensor> operator()(const F& f) const {
    const Tensor y = f(in[0], in[1], in[2]);
    std::vector<Tensor> results = ct::grad({y}, {in[0], in[1], in[2]}, {g});
    results.push_back(y);
    return results;
  }
};

template <class Step>
void gpu_row(benchmark::State& state, Step&& step, int warm) {
  const double taken = seconds_of([&] {
    for (int i = 0; i < warm; ++i) step();
    ct::synchronize(ct::cuda());
  });
  static const double first = taken;  // Google Benchmark calls a row several times
  time_device(state, ct::cuda(), 5, step);
  state.counters["first"] = first;
  count_bytes(state, 8.0 * sizeof(float) * (1 << 26));
}
void chain_captured(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Chain chain;
  auto step = ct::capture([&] { return chain(kFunctions); });
  gpu_row(state, step, 3);
}
void chain_fused(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Chain chain;
  const auto f = ct::fuse(kFunctions);
  gpu_row(
      state, [&] { return chain(f); }, 1);
}
void chain_apart(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Chain chain;
  gpu_row(
      state, [&] { return chain(kFunctions); }, 1);
}
// F3g: rows between formulas on a GPU, as a captured step: with their formulas, and each call by itself. `bytes` counts what has to move
// where each tensor is read or written once: by the norm 3 tensors, forward and backward 11, by the softmax 3, by the means 2, by the loss
// and its gradient 6.
template <class F>
void rows_on_gpu(benchmark::State& state, std::int64_t columns, double tensors, F f) {
  if (!needs_gpu(state)) return;
  const ct::TensorOptions on_gpu{.device = ct::cuda()};
  const ct::Shape shape{(1 << 24) / columns, columns};
  const Tensor x = ct::randn(shape, on_gpu).set_requires_grad(),
               w = ct::randn(shape, on_gpu).set_requires_grad(), g = ct::ones(shape, on_gpu);
  auto step = ct::capture([&] { return f(x, w, g); }, {.fuse = state.range(0) == 1});
  for (int i = 0; i < 4; ++i) step();
  time_device(state, ct::cuda(), 5, step);
  count_bytes(state, tensors * sizeof(float) * (1 << 24));
}
template <class F>
void forward_on_gpu(benchmark::State& state, std::int64_t columns, double tensors, F f) {
  rows_on_gpu(state, columns, tensors, [f](const Tensor& x, const Tensor& w, const Tensor&) {
    const ct::NoGrad off;
    return f(x, w);
  });
}
void norm_on_gpu(benchmark::State& state) {
  forward_on_gpu(state, 1 << 11, 3, [](auto x, auto w) { return relu(layer_norm(x * w + x)); });
}
void norm_both_on_gpu(benchmark::State& state) {
  rows_on_gpu(state, 1 << 11, 11, [](auto x, auto w, auto g) {
    const Tensor y = relu(layer_norm(x * w + x));
    std::vector<Tensor> results = ct::grad({y}, {x, w}, {g});
    results.push_back(y);
    return results;
  });
}
void softmax_on_gpu(benchmark::State& state) {
  forward_on_gpu(state, 1 << 10, 3, [](auto x, auto w) { return softmax(x * 0.5 + w, -1) * w; });
}
void mean_on_gpu(benchmark::State& state) {
  forward_on_gpu(state, 1 << 11, 2, [](auto x, auto w) { return mean(square(x - w), -1); });
}
void mean_of_all_on_gpu(benchmark::State& state) {
  forward_on_gpu(state, 1 << 11, 2, [](auto x, auto w) { return mean(square(x - w)); });
}
// The loss of logits that are capped, and their gradient.
void cross_entropy_on_gpu(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Tensor labels = ct::randint(0, 1 << 11, {1 << 13}, {.device = ct::cuda()});
  rows_on_gpu(state, 1 << 11, 6, [=](auto x, auto, auto) {
    return ct::grad({cross_entropy(tanh(x * (1.0 / 30)) * 30, labels)}, {x});
  });
}
#define ROWS(name)                                                                          \
  BENCHMARK(name##_on_gpu)->Name("F3g/" #name "_2^24@one_by_one")->Arg(0)->UseManualTime(); \
  BENCHMARK(name##_on_gpu)->Name("F3g/" #name "_2^24@captured")->Arg(1)->UseManualTime()
ROWS(norm);
ROWS(norm_both);
ROWS(softmax);
ROWS(mean);
ROWS(mean_of_all);
ROWS(cross_entropy);
#undef ROWS
BENCHMARK(chain_captured)->Name("F1/captured_2^26")->UseManualTime();
BENCHMARK(chain_fused)->Name("F1/fuse_2^26")->UseManualTime();
BENCHMARK(chain_apart)->Name("F1/functions_2^26@one_by_one")->UseManualTime();

#define ROWS(name)                                                                                       \
  BENCHMARK(name##_rows)->Name("F3/" #name "_2^24@one_by_one")->Arg(0)->Apply(five_runs)->UseRealTime(); \
  BENCHMARK(name##_rows)->Name("F3/" #name "_2^24@captured")->Arg(1)->Apply(five_runs)->UseRealTime()
ROWS(norm);
ROWS(softmax);
ROWS(mean);
ROWS(mean_of_all);
ROWS(cross_entropy);
#undef ROWS
BENCHMARK(arithmetic)->Name("F2/arithmetic_2^24")->Apply(five_runs)->UseRealTime();
BENCHMARK(arithmetic_apart)->Name("F2/arithmetic_2^24@one_by_one")->Apply(five_runs)->UseRealTime();
BENCHMARK(functions)->Name("F2/functions_2^24")->Apply(five_runs)->UseRealTime();
BENCHMARK(functions_apart)->Name("F2/functions_2^24@one_by_one")->Apply(five_runs)->UseRealTime();
BENCHMARK(arithmetic_captured)->Name("F2/arithmetic_2^24@captured")->Apply(five_runs)->UseRealTime();
BENCHMARK(functions_captured)->Name("F2/functions_2^24@captured")->Apply(five_runs)->UseRealTime();

}  // namespace
