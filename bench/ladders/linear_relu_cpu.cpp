#include "bench/ladders/linear_relu.h"

#include "bench/ladders/gemm.h"
#include "bench/ladders/gemm_cpu.h"

// A layer on the CPU: y = relu(x W + b). The product is the last rung of gemm; the ladder is about what comes after it.
// Adding a bias and taking the larger of two numbers is next to no work: its cost is one more pass over y.

namespace ct::ladder::linear_relu {
namespace {

using gemm::V;
using std::int64_t;

void product(const Call& call) {
  gemm::packed_product(call.size(0), call.size(1), call.size(2), call.input<float>(0), call.input<float>(1),
                       call.output<float>(0), true, [](V sum, int64_t) { return sum; });
}

// y = f(y, b) in a pass of its own, by all threads.
template <class F>
void pass(const Call& call, F f) {
  const int64_t n = call.size(1);
  const float* bias = call.input<float>(2);
  float* y = call.output<float>(0);
  parallel_for(call.size(0), 1 + (1 << 15) / n, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      for (int64_t j = 0; j < n; ++j) y[i * n + j] = f(y[i * n + j], bias[j]);
  });
}

// Rung "three-passes". Op by op: the product is written, read and written with the bias, read and written once more with
// what is below 0 cut off. Where k is small the second and third pass take as long as the first.
void three_passes(const Call& call) {
  product(call);
  pass(call, [](float y, float b) { return y + b; });
  pass(call, [](float y, float) { return y > 0 ? y : 0; });
}

// Rung "two-passes". Both at once: y goes by once less.
void two_passes(const Call& call) {
  product(call);
  pass(call, [](float y, float b) { return y + b > 0 ? y + b : 0; });
}

// Rung "fused". The product has each number of y in a register when its sum is done. Bias and relu are taken there, before
// it is stored: y goes by once, and nothing is left to measure of the two.
void fused(const Call& call) {
  const int64_t n = call.size(1);
  std::vector<float> bias(
      static_cast<std::size_t>(n + gemm::kCols));  // a last tile may reach beyond the edge
  std::copy_n(call.input<float>(2), n, bias.begin());
  gemm::packed_product(call.size(0), n, call.size(2), call.input<float>(0), call.input<float>(1),
                       call.output<float>(0), true, [&](V sum, int64_t j) {
                         const V y = sum + V::load(bias.data() + j);
                         return where(y > V(0.f), y, V(0.f));
                       });
}

const bool kAdded =
    ct::ladder::add(ladder(DeviceType::cpu, {{f32, {1, 1, 1}}, {f32, {37, 53, 29}}, {f32, {48, 131, 600}}},
                           {{f32, {4096, 4096, 64}}}, three_passes, two_passes, fused));

}  // namespace
}  // namespace ct::ladder::linear_relu
