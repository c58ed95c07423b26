#include "bench/bench.h"

// N1: a convolution as residual networks have them, on the GPU, and its two gradients apart.

namespace {

using namespace ct::bench;
using ct::Tensor;

constexpr std::int64_t kBatch = 64, kChannels = 64, kSize = 56;
constexpr double kFlops = 2.0 * kBatch * kChannels * kSize * kSize * kChannels * 9;

Tensor random(const ct::Shape& shape) { return ct::randn(shape, {.dtype = ct::bf16, .device = ct::cuda(0)}); }

void conv_fwd(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Tensor x = random({kBatch, kChannels, kSize, kSize}), w = random({kChannels, kChannels, 3, 3});
  time_device(state, ct::cuda(0), 10, [&] { ct::conv2d(x, w, {}, {.padding = 1}); });
  count_flops(state, kFlops);
}
void conv_bwd(benchmark::State& state, bool of_weight) {
  if (!needs_gpu(state)) return;
  Tensor x = random({kBatch, kChannels, kSize, kSize}), w = random({kChannels, kChannels, 3, 3});
  (of_weight ? w : x).set_requires_grad();
  const Tensor y = ct::conv2d(x, w, {}, {.padding = 1}), g = random(y.shape());
  time_device(state, ct::cuda(0), 10, [&] {
    const Tensor outputs[] = {y}, inputs[] = {of_weight ? w : x}, cotangents[] = {g};
    ct::grad(outputs, inputs, cotangents, {.retain_graph = true});
  });
  count_flops(state, kFlops);
}
BENCHMARK(conv_fwd)->Name("N1/conv2d_bf16_fwd")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(conv_bwd, , false)->Name("N1/conv2d_bf16_dgrad")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(conv_bwd, , true)->Name("N1/conv2d_bf16_wgrad")->Iterations(15)->UseManualTime();

}  // namespace
