#include <cotangent/ops/engine/gemm/gemm_cpu.h>
#include <cotangent/ops/engine/gemm/plain.h>

namespace ct::plain {

Matrix product(const ConstMatrix& a, const ConstMatrix& b) {
  Matrix c(a.rows(), b.cols());
  if (c.size() > 0)
    functions_of(kernel_tables::gemms, cpu)
        .run({a.rows(), b.cols(), a.cols(), a.outerStride(), a.innerStride(), b.outerStride(),
              b.innerStride(), b.cols()},
             1, a.data(), b.data(), 0, c.data());
  return c;
}

}  // namespace ct::plain
