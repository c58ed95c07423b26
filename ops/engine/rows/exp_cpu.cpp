#include <cotangent/ops/engine/rows/exp_cpu.h>

#include <cotangent/core/simd/exp.h>

namespace ct {

void exp_cpu(double* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = simd::exp(x[i]);
}

}  // namespace ct

CT_FUNCTIONS(cpu, ExpFunctions, exponentials, exp_cpu)
