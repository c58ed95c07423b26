#include "bench/bench.h"

// N1: a convolution as residual networks have them, on the GPU, and its two gradients apart. O10: images of twice the size.
// N4: batch_norm in training, and relu. Bytes of those: each tensor of the row once, forward reads and writes, backward
// reads twice and writes.

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

// ---- O10, N4 ----

// The gradients by `inputs` of what f makes of the first.
template <class F>
void time_backward(benchmark::State& state, std::vector<Tensor> inputs, double bytes, const F& f) {
  for (Tensor& t : inputs) t.set_requires_grad();
  const Tensor y = f(), g = ct::randn(y.shape(), {.dtype = y.dtype(), .device = y.device()});
  time_device(state, ct::cuda(0), 10, [&] {
    const Tensor outputs[] = {y}, cotangents[] = {g};
    ct::grad(outputs, inputs, cotangents, {.retain_graph = true});
  });
  count_bytes(state, bytes);
}

void upsample(benchmark::State& state, ct::DType dtype, bool back) {
  if (!needs_gpu(state)) return;
  const Tensor x = ct::randn({64, 64, 128, 128}, {.dtype = dtype, .device = ct::cuda(0)});
  const auto f = [&] { return ct::interpolate(x, {.scale_factor = 2}); };
  const double bytes = 5.0 * static_cast<double>(x.nbytes());
  if (back) return time_backward(state, {x}, bytes, f);
  time_device(state, ct::cuda(0), 10, f);
  count_bytes(state, bytes);
}
BENCHMARK_CAPTURE(upsample, , ct::f32, false)->Name("O10/upsample_f32_fwd")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(upsample, , ct::f32, true)->Name("O10/upsample_f32_bwd")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(upsample, , ct::f16, false)->Name("O10/upsample_f16_fwd")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(upsample, , ct::f16, true)->Name("O10/upsample_f16_bwd")->Iterations(15)->UseManualTime();

void batch_norm_relu(benchmark::State& state, bool back) {
  if (!needs_gpu(state)) return;
  const auto per_channel = [](double value) {
    return ct::full({256}, value, {.device = ct::cuda(0)}).to(ct::f32);
  };
  const Tensor x = random({64, 256, 56, 56}), w = per_channel(1), b = per_channel(0);
  const Tensor mean = per_channel(0), var = per_channel(1);
  const auto f = [&] { return ct::relu(ct::batch_norm(x, mean, var, w, b, {.training = true})); };
  const double bytes = static_cast<double>(x.nbytes());
  if (back) return time_backward(state, {x, w, b}, 3 * bytes, f);
  time_device(state, ct::cuda(0), 10, f);
  count_bytes(state, 2 * bytes);
}
BENCHMARK_CAPTURE(batch_norm_relu, , false)
    ->Name("N4/batch_norm_relu_bf16_fwd")
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK_CAPTURE(batch_norm_relu, , true)
    ->Name("N4/batch_norm_relu_bf16_bwd")
    ->Iterations(15)
    ->UseManualTime();

}  // namespace
