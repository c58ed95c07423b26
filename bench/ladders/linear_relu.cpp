#include "bench/ladders/linear_relu.h"

#include <cotangent/cotangent.h>

#include "bench/ladders/gemm.h"

namespace ct::ladder::linear_relu {
namespace {

Tensors inputs(const Case& of) {
  Tensors all = gemm::inputs(of);
  all.push_back(randn({of.size[1]}));
  return all;
}

Tensors plain(const Tensors& in) {
  const Tensor y = gemm::plain(in)[0];
  const std::int64_t n = y.size(1);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.data<double>()[i] = std::max(0.0, y.data<double>()[i] + in[2].data<double>()[i % n]);
  return {y};
}

Tensors library(const Tensors& in) { return {linear(in[0], in[1].t(), in[2]).relu_()}; }

}  // namespace

Ladder ladder(DeviceType device, std::vector<Case> small, std::vector<Case> timed,
              void (*three_passes)(const Call&), void (*two_passes)(const Call&),
              void (*fused)(const Call&)) {
  return {.name = "linear_relu",
          .what = "y = relu(x W + b), m x n x k",
          .device = device,
          .unit = Unit::flops,
          .small = std::move(small),
          .timed = std::move(timed),
          .work = gemm::work,
          .inputs = inputs,
          .plain = plain,
          .library = library,
          .library_name = "ct::linear",
          .rungs = {{"three-passes", "the product, the bias and relu, one after the other", three_passes},
                    {"two-passes", "bias and relu in one pass", two_passes},
                    {"fused", "bias and relu while the sums are in registers", fused}}};
}

}  // namespace ct::ladder::linear_relu
