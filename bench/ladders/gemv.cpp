#include "bench/ladders/gemv.h"

#include <cotangent/cotangent.h>

namespace ct::ladder::gemv {

double work(const Case& of) {
  const double m = static_cast<double>(of.size[0]), k = static_cast<double>(of.size[1]);
  return (m * k + k + m) * static_cast<double>(size_of(of.dtype));
}

Tensors inputs(const Case& of) {
  manual_seed(1);
  return {randn({of.size[0], of.size[1]}), randn({of.size[1]})};
}

Tensors plain(const Tensors& in) {
  const std::int64_t m = in[0].size(0), k = in[0].size(1);
  const Tensor y = zeros({m}, {.dtype = f64});
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t p = 0; p < k; ++p)
      y.data<double>()[i] += in[0].data<double>()[i * k + p] * in[1].data<double>()[p];
  return {y};
}

Tensors library(const Tensors& in) { return {matmul(in[0], in[1])}; }

}  // namespace ct::ladder::gemv
