#include "bench/ladders/gemm.h"

#include <cotangent/cotangent.h>

namespace ct::ladder::gemm {

double work(const Case& of) {
  return 2.0 * static_cast<double>(of.size[0]) * static_cast<double>(of.size[1]) *
         static_cast<double>(of.size[2]);
}

Tensors inputs(const Case& of) {
  manual_seed(1);
  const std::int64_t m = of.size[0], n = of.size[1], k = of.size[2];
  return {randn({m, k}), randn({k, n})};
}

Tensors plain(const Tensors& in) {
  const std::int64_t m = in[0].size(0), n = in[1].size(1), k = in[0].size(1);
  const Tensor c = zeros({m, n}, {.dtype = f64});
  const double *a = in[0].data<double>(), *b = in[1].data<double>();
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t p = 0; p < k; ++p) c.data<double>()[i * n + j] += a[i * k + p] * b[p * n + j];
  return {c};
}

Tensors library(const Tensors& in) { return {matmul(in[0], in[1])}; }

}  // namespace ct::ladder::gemm
