#include "bench/bench.h"

// F2: a chain of ten ops element by element and its gradients on the CPU, as one fused op and one by one. Three tensors of 2^24
// numbers are read, and three gradients written.

namespace {

using namespace ct::bench;
using ct::Tensor;

constexpr auto kChain = [](auto x, auto w, auto b) {
  const auto h = x * w + b;
  const auto k = tanh(h * sigmoid(h)) + x;
  const auto y = relu(k) * 1.5 - w;
  return square(y);
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

void fused(benchmark::State& state) { chain_row(state, ct::fuse(kChain)); }
void one_by_one(benchmark::State& state) { chain_row(state, kChain); }

BENCHMARK(fused)->Name("F2/chain_2^24_fused")->Apply(five_runs)->UseRealTime();
BENCHMARK(one_by_one)->Name("F2/chain_2^24_one_by_one")->Apply(five_runs)->UseRealTime();

}  // namespace
