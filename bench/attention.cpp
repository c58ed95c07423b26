#include "bench/bench.h"

// Causal attention in bf16 on the GPU. Operations are counted as the products of the visible half: 2 in
// forward, 5 in backward.

namespace {

using namespace ct::bench;
using ct::Tensor;

struct Case {
  std::int64_t batch, heads, length, dim;
};
constexpr Case kA1{32, 32, 1024, 64}, kA2{8, 32, 4096, 64}, kA3{8, 16, 4096, 128};

double product_flops(const Case& c) {
  return static_cast<double>(c.batch * c.heads * c.length) * static_cast<double>(c.length * c.dim);
}

struct Inputs {
  Tensor q, k, v;
  explicit Inputs(const Case& c) {
    for (Tensor* t : {&q, &k, &v})
      *t = ct::randn({c.batch, c.heads, c.length, c.dim}, {.dtype = ct::bf16, .device = ct::cuda(0)});
  }
};

void attention_fwd(benchmark::State& state, const Case& c) {
  if (!needs_gpu(state)) return;
  const Inputs in(c);
  time_device(state, ct::cuda(0), 10,
              [&] { ct::scaled_dot_product_attention(in.q, in.k, in.v, {.causal = true}); });
  count_flops(state, 2 * product_flops(c));
}
void attention_bwd(benchmark::State& state, const Case& c) {
  if (!needs_gpu(state)) return;
  Inputs in(c);
  for (Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad();
  const Tensor y = ct::scaled_dot_product_attention(in.q, in.k, in.v, {.causal = true});
  const Tensor g = ct::randn(y.shape(), {.dtype = ct::bf16, .device = ct::cuda(0)});
  time_device(state, ct::cuda(0), 10, [&] {
    const Tensor outputs[] = {y}, inputs[] = {in.q, in.k, in.v}, cotangents[] = {g};
    ct::grad(outputs, inputs, cotangents, {.retain_graph = true});
  });
  count_flops(state, 5 * product_flops(c));
}

BENCHMARK_CAPTURE(attention_fwd, , kA1)->Name("A1/attention_hd64_t1024_fwd")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(attention_bwd, , kA1)->Name("A1/attention_hd64_t1024_bwd")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(attention_fwd, , kA2)->Name("A2/attention_hd64_t4096_fwd")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(attention_bwd, , kA2)->Name("A2/attention_hd64_t4096_bwd")->Iterations(15)->UseManualTime();
BENCHMARK_CAPTURE(attention_fwd, , kA3)
    ->Name("A3/attention_hd128_t4096_fwd")
    ->Iterations(15)
    ->UseManualTime();
BENCHMARK_CAPTURE(attention_bwd, , kA3)
    ->Name("A3/attention_hd128_t4096_bwd")
    ->Iterations(15)
    ->UseManualTime();

}  // namespace
