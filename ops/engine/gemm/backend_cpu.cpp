#include <cotangent/ops/engine/gemm/gemm_cpu.h>
#include <cotangent/ops/engine/gemm/product.h>
#include <cotangent/ops/engine/gemm/replace.h>

namespace ct {
namespace gemm {
namespace {

void run_cpu(const Product& p) {
  if (replaced(p, DeviceType::cpu)) return;
  visit_numeric("matmul", p.dtype, [&]<class T>(TypeTag<T>) {
    const Gemm shape{p.m, p.n, p.k, p.a_row, p.a_col, p.b_row, p.b_col, p.c_row};
    const T* a = static_cast<const T*>(p.a);
    const T* b = static_cast<const T*>(p.b);
    const compute_t<T> one(1), beta(p.accumulate ? 1 : 0);
    const auto run = [&]<class Out>(Out* c) {
      if (p.batch == 1)
        gemm_cpu<T, Out>(shape, one, a, b, beta, c);
      else
        gemm_batched_cpu<T, Out>(shape, p.batch, p.a_batch, p.b_batch, p.c_batch, one, a, b, beta, c);
    };
    if (p.c_dtype == p.dtype) return run(static_cast<T*>(p.c));
    if constexpr (is_low_precision(dtype_of<T>)) run(static_cast<float*>(p.c));
  });
}

}  // namespace

// The CPU's GEMM reads any strides, and packs what it can't read as vectors; a call costs little.
const Backend cpu_backend{run_cpu, true, INT64_MAX};

}  // namespace gemm

}  // namespace ct
