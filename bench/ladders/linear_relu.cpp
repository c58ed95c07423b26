#include "bench/ladders/linear_relu.h"

#include <cotangent/cotangent.h>

#include "bench/ladders/gemm.h"

namespace ct::ladder::linear_relu {

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

}  // namespace ct::ladder::linear_relu
