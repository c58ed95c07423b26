#include <string>
#include <vector>

#include "bench/bench.h"

// C5: single ops on the CPU whose limit is the memory: elementwise functions of 2^24 numbers, and ops on 4096 rows of 1024.
// Every tensor is counted once, as on the GPU. Results are freed and allocated anew, as in use.

namespace {

using namespace ct::bench;
using ct::Tensor;

/// Runs `f` and books `tensors` times the bytes of `x`.
template <class F>
void time_op(benchmark::State& state, const Tensor& x, double tensors, F f) {
  f();  // the first result's memory is new
  for (auto _ : state) benchmark::DoNotOptimize(f());
  count_bytes(state, tensors * static_cast<double>(x.nbytes()));
}

/// `BODY(dtype)` for each named dtype, as the row C5/NAME_DTYPE.
template <class Body>
void row(const std::string& name, std::initializer_list<ct::DType> dtypes, Body body) {
  for (const ct::DType dtype : dtypes) {
    const std::string full = "C5/" + name + "_" + std::string(ct::name(dtype));
    benchmark::RegisterBenchmark(full.c_str(), body, dtype)->Apply(five_runs)->UseRealTime();
  }
}

template <class F>
void elementwise(const std::string& name, std::initializer_list<ct::DType> dtypes, F f) {
  row(name + "_2^24", dtypes, [f](benchmark::State& state, ct::DType dtype) {
    const Tensor x = numbers(0, {1 << 24}).abs().to(dtype);  // of which there are logarithms too
    time_op(state, x, 2, [&] { return f(x); });
  });
}

/// Forward and, where `backward` says how many tensors of x's size it reads and writes, backward of an op on x and on
/// `parameters` vectors as long as a row.
template <class F>
void on_rows(const std::string& name, double forward, double backward, int parameters, F f) {
  const auto inputs = [=](ct::DType dtype) {
    std::vector<Tensor> all = {numbers(0, {4096, 1024}).clone().to(dtype)};
    for (int i = 0; i < parameters; ++i) all.push_back(ct::ones({1024}, {.dtype = dtype}));
    return all;
  };
  row(name + "_fwd_4096x1024", {ct::f32, ct::bf16}, [=](benchmark::State& state, ct::DType dtype) {
    const std::vector<Tensor> in = inputs(dtype);
    time_op(state, in[0], forward, [&] { return f(in); });
  });
  if (backward == 0) return;
  row(name + "_bwd_4096x1024", {ct::f32, ct::bf16}, [=](benchmark::State& state, ct::DType dtype) {
    std::vector<Tensor> in = inputs(dtype);
    for (Tensor& t : in) t.set_requires_grad();
    const Tensor outputs[] = {f(in)}, cotangents[] = {ct::randn(outputs[0].shape()).to(outputs[0].dtype())};
    time_op(state, in[0], backward,
            [&] { return ct::grad(outputs, in, cotangents, {.retain_graph = true}); });
  });
}

const bool ops_registered = [] {
  elementwise("exp", {ct::f32, ct::bf16}, [](const Tensor& x) { return ct::exp(x); });
  elementwise("log", {ct::f32}, [](const Tensor& x) { return ct::log(x); });
  elementwise("tanh", {ct::f32}, [](const Tensor& x) { return ct::tanh(x); });
  elementwise("erf", {ct::f32}, [](const Tensor& x) { return ct::erf(x); });
  elementwise("gelu", {ct::f32, ct::bf16}, [](const Tensor& x) { return ct::gelu(x); });
  elementwise("sigmoid", {ct::f32}, [](const Tensor& x) { return ct::sigmoid(x); });
  using Inputs = std::vector<Tensor>;
  on_rows("sum", 1, 0, 0, [](const Inputs& in) { return ct::sum(in[0]); });
  on_rows("softmax", 2, 3, 0, [](const Inputs& in) { return ct::softmax(in[0], -1); });
  on_rows("layer_norm", 2, 3, 2, [](const Inputs& in) { return ct::layer_norm(in[0], in[1], in[2]); });
  on_rows("cross_entropy", 1, 2, 0, [](const Inputs& in) {
    static const Tensor labels = ct::randint(0, 1024, {4096});
    return ct::cross_entropy(in[0], labels);
  });
  return true;
}();

}  // namespace
