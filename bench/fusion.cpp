#include "bench/bench.h"

// F2: a chain of ten ops element by element and its gradients on the CPU, as one fused op and one by one: arithmetic alone, and
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

template <class F>
void chain_row(benchmark::State& state, F f) {
  const ct::Shape shape{1 << 12, 1 << 12};
  Tensor in[] = {numbers(0, shape).clone(), numbers(0, shape) * 0.5, numbers(0, shape) + 0.25};
  for (Tensor& t : in) t.set_requires_grad();
  const Tensor g = ct::ones(shape);
  const auto step = [&] { return ct::grad({f(in[0], in[1], in[2])}, {in[0], in[1], in[2]}, {g}); };
  step();
  for (auto _ : state) benchmark::DoNotOptimize(step());
}

void arithmetic(benchmark::State& state) { chain_row(state, ct::fuse(kArithmetic)); }
void arithmetic_apart(benchmark::State& state) { chain_row(state, kArithmetic); }
void functions(benchmark::State& state) { chain_row(state, ct::fuse(kFunctions)); }
void functions_apart(benchmark::State& state) { chain_row(state, kFunctions); }

BENCHMARK(arithmetic)->Name("F2/arithmetic_2^24")->Apply(five_runs)->UseRealTime();
BENCHMARK(arithmetic_apart)->Name("F2/arithmetic_2^24@one_by_one")->Apply(five_runs)->UseRealTime();
BENCHMARK(functions)->Name("F2/functions_2^24")->Apply(five_runs)->UseRealTime();
BENCHMARK(functions_apart)->Name("F2/functions_2^24@one_by_one")->Apply(five_runs)->UseRealTime();

}  // namespace
