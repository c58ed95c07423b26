#include "bench/bench.h"

// Single ops on the GPU. Every tensor is counted once: forward reads and writes, backward reads twice and
// writes.

namespace {

using namespace ct::bench;
using ct::Tensor;

constexpr ct::DType kTypes[] = {ct::f32, ct::f16, ct::bf16};
const ct::Device kGpu = ct::cuda(0);

Tensor random(const ct::Shape& shape, ct::DType dtype) {
  return ct::randn(shape, {.dtype = dtype, .device = kGpu});
}

void mul(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const ct::DType t = kTypes[state.range(0)];
  const Tensor a = random({1 << 27}, t), b = random({1 << 27}, t);
  time_device(state, kGpu, 10, [&] { a* b; });
  count_bytes(state, 3.0 * static_cast<double>(a.nbytes()));
}
BENCHMARK(mul)->Name("O1/mul_f32")->Arg(0)->Iterations(15)->UseManualTime();
BENCHMARK(mul)->Name("O1/mul_f16")->Arg(1)->Iterations(15)->UseManualTime();
BENCHMARK(mul)->Name("O1/mul_bf16")->Arg(2)->Iterations(15)->UseManualTime();

void sum(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Tensor a = random({1 << 27}, kTypes[state.range(0)]);
  time_device(state, kGpu, 10, [&] { a.sum(); });
  count_bytes(state, static_cast<double>(a.nbytes()));
}
BENCHMARK(sum)->Name("O2/sum_f32")->Arg(0)->Iterations(15)->UseManualTime();
BENCHMARK(sum)->Name("O2/sum_f16")->Arg(1)->Iterations(15)->UseManualTime();

// Forward and backward of a function of one tensor, as two rows.
template <class F>
void forward(benchmark::State& state, const ct::Shape& shape, ct::DType dtype, F f) {
  if (!needs_gpu(state)) return;
  const Tensor x = random(shape, dtype);
  time_device(state, kGpu, 10, [&] { f(x); });
  count_bytes(state, 2.0 * static_cast<double>(x.nbytes()));
}
template <class F>
void backward(benchmark::State& state, const ct::Shape& shape, ct::DType dtype, F f) {
  if (!needs_gpu(state)) return;
  const Tensor x = random(shape, dtype).set_requires_grad();
  const Tensor y = f(x), g = random(shape, dtype);
  time_device(state, kGpu, 10, [&] {
    const Tensor outputs[] = {y}, inputs[] = {x}, cotangents[] = {g};
    ct::grad(outputs, inputs, cotangents, {.retain_graph = true});
  });
  count_bytes(state, 3.0 * static_cast<double>(x.nbytes()));
}

const auto kSoftmax = [](const Tensor& x) { return ct::softmax(x, -1); };
const auto kGelu = [](const Tensor& x) { return ct::gelu(x, ct::Gelu::tanh); };

void softmax_fwd(benchmark::State& state) {
  forward(state, {state.range(0), state.range(1)}, kTypes[state.range(2)], kSoftmax);
}
void softmax_bwd(benchmark::State& state) {
  backward(state, {state.range(0), state.range(1)}, kTypes[state.range(2)], kSoftmax);
}
BENCHMARK(softmax_fwd)
    ->Name("O3/softmax_bf16_8192x4096_fwd")
    ->Args({8192, 4096, 2})
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK(softmax_bwd)
    ->Name("O3/softmax_bf16_8192x4096_bwd")
    ->Args({8192, 4096, 2})
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK(softmax_fwd)
    ->Name("O3b/softmax_f32_4096x16384_fwd")
    ->Args({4096, 16384, 0})
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK(softmax_bwd)
    ->Name("O3b/softmax_f32_4096x16384_bwd")
    ->Args({4096, 16384, 0})
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK(softmax_fwd)
    ->Name("O3b/softmax_bf16_1024x65536_fwd")
    ->Args({1024, 65536, 2})
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK(softmax_bwd)
    ->Name("O3b/softmax_bf16_1024x65536_bwd")
    ->Args({1024, 65536, 2})
    ->Iterations(15)
    ->UseManualTime();

void gelu_fwd(benchmark::State& state) { forward(state, {4096, 16384}, ct::bf16, kGelu); }
void gelu_bwd(benchmark::State& state) { backward(state, {4096, 16384}, ct::bf16, kGelu); }
BENCHMARK(gelu_fwd)->Name("O6/gelu_bf16_4096x16384_fwd")->Iterations(15)->UseManualTime();
BENCHMARK(gelu_bwd)->Name("O6/gelu_bf16_4096x16384_bwd")->Iterations(15)->UseManualTime();

// O7: the logits are read in forward, read and written in backward.
void cross_entropy(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Tensor x = random({8192, 50304}, ct::bf16).set_requires_grad();
  const Tensor y = ct::randint(0, 50257, {8192}).to(kGpu);
  time_device(state, kGpu, 5, [&] {
    const Tensor outputs[] = {ct::cross_entropy(x, y)}, inputs[] = {x};
    ct::grad(outputs, inputs);
  });
  count_bytes(state, 3.0 * static_cast<double>(x.nbytes()));
}
BENCHMARK(cross_entropy)->Name("O7/cross_entropy_bf16_8192x50304")->Iterations(15)->UseManualTime();

// O9: the source is read, and the rows are read and written.
void index_add(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const ct::DType t = kTypes[state.range(0)];
  Tensor rows = random({100000, 256}, t);
  const Tensor source = random({262144, 256}, t), index = ct::randint(0, 100000, {262144}).to(kGpu);
  time_device(state, kGpu, 10, [&] { ct::index_add_(rows, 0, index, source); });
  count_bytes(state, static_cast<double>(source.nbytes() + index.nbytes() + 2 * rows.nbytes()));
}
BENCHMARK(index_add)->Name("O9/index_add_f32")->Arg(0)->Iterations(15)->UseManualTime();
BENCHMARK(index_add)->Name("O9/index_add_f16")->Arg(1)->Iterations(15)->UseManualTime();

// O14: the elements are read, and written with their positions, however often they move in between.
void sort(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Tensor x = random({1 << 24}, ct::f32);
  time_device(state, kGpu, 10, [&] { ct::sort(x); });
  count_bytes(state, 4.0 * static_cast<double>(x.nbytes()));
}
BENCHMARK(sort)->Name("O14/sort_f32_2^24")->Iterations(15)->UseManualTime();

// O15
void cumsum(benchmark::State& state) {
  forward(state, {1 << 27}, ct::f32, [](const Tensor& x) { return ct::cumsum(x, 0); });
}
BENCHMARK(cumsum)->Name("O15/cumsum_f32_2^27")->Iterations(15)->UseManualTime();

void transpose(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Tensor x = random({16384, 16384}, kTypes[state.range(0)]);
  const Tensor xt = x.t();
  time_device(state, kGpu, 10, [&] { xt.contiguous(); });
  count_bytes(state, 2.0 * static_cast<double>(x.nbytes()));
}
BENCHMARK(transpose)->Name("O11/transpose_f32_16384")->Arg(0)->Iterations(15)->UseManualTime();
BENCHMARK(transpose)->Name("O11/transpose_f16_16384")->Arg(1)->Iterations(15)->UseManualTime();

void gemm_f32(benchmark::State& state) {
  if (!needs_gpu(state)) return;
  const Tensor a = random({4096, 4096}, ct::f32), b = random({4096, 4096}, ct::f32);
  time_device(state, kGpu, 5, [&] { ct::matmul(a, b); });
  count_flops(state, 2.0 * 4096.0 * 4096.0 * 4096.0);
}
BENCHMARK(gemm_f32)->Name("M3/gemm_f32_4096")->Iterations(15)->UseManualTime();

}  // namespace
