#include "bench/bench.h"

// Norms and the embedding's gradient on the GPU, bf16. Bytes as everywhere: each tensor of the rows once,
// forward reads and writes, backward reads twice and writes.

namespace {

using namespace ct::bench;
using ct::Tensor;

const ct::Device kGpu = ct::cuda(0);

Tensor random(const ct::Shape& shape) { return ct::randn(shape, {.dtype = ct::bf16, .device = kGpu}); }

enum class Norm { layer, rms };

Tensor apply(Norm norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return norm == Norm::layer ? ct::layer_norm(x, weight, bias) : ct::rms_norm(x, weight);
}
void norm_fwd(benchmark::State& state, Norm norm, std::int64_t rows, std::int64_t columns) {
  if (!needs_gpu(state)) return;
  const Tensor x = random({rows, columns}), weight = random({columns}), bias = random({columns});
  time_device(state, kGpu, 10, [&] { apply(norm, x, weight, bias); });
  count_bytes(state, 2.0 * static_cast<double>(x.nbytes()));
}
void norm_bwd(benchmark::State& state, Norm norm, std::int64_t rows, std::int64_t columns) {
  if (!needs_gpu(state)) return;
  std::vector<Tensor> inputs = {random({rows, columns}), random({columns})};
  if (norm == Norm::layer) inputs.push_back(random({columns}));
  for (Tensor& t : inputs) t.set_requires_grad();
  const Tensor y = apply(norm, inputs[0], inputs[1], inputs.back()), g = random({rows, columns});
  time_device(state, kGpu, 10, [&] {
    const Tensor outputs[] = {y}, cotangents[] = {g};
    ct::grad(outputs, inputs, cotangents, {.retain_graph = true});
  });
  count_bytes(state, 3.0 * static_cast<double>(y.nbytes()));
}
BENCHMARK_CAPTURE(norm_fwd, , Norm::layer, 32768, 1024)
    ->Name("O4/layer_norm_bf16_32768x1024_fwd")
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK_CAPTURE(norm_bwd, , Norm::layer, 32768, 1024)
    ->Name("O4/layer_norm_bf16_32768x1024_bwd")
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK_CAPTURE(norm_fwd, , Norm::layer, 8192, 4096)
    ->Name("O4b/layer_norm_bf16_8192x4096_fwd")
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK_CAPTURE(norm_bwd, , Norm::layer, 8192, 4096)
    ->Name("O4b/layer_norm_bf16_8192x4096_bwd")
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK_CAPTURE(norm_fwd, , Norm::rms, 8192, 4096)
    ->Name("O5/rms_norm_bf16_8192x4096_fwd")
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK_CAPTURE(norm_bwd, , Norm::rms, 8192, 4096)
    ->Name("O5/rms_norm_bf16_8192x4096_bwd")
    ->Iterations(15)
    ->UseManualTime();

void embedding_bwd(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Tensor indices = ct::randint(0, 50257, {32, 1024}).to(kGpu);
  const Tensor table = random({50304, 768}).set_requires_grad();
  const Tensor y = ct::embedding(indices, table), g = random(y.shape());
  time_device(state, kGpu, 10, [&] {
    const Tensor outputs[] = {y}, inputs[] = {table}, cotangents[] = {g};
    ct::grad(outputs, inputs, cotangents, {.retain_graph = true});
  });
}
BENCHMARK(embedding_bwd)->Name("O8/embedding_bf16_50304x768_bwd")->Iterations(15)->UseManualTime();

}  // namespace
