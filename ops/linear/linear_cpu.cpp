#include <cotangent/ops/engine/gemm/gemm_cpu.h>
#include <cotangent/ops/engine/gemm/product.h>
#include <cotangent/ops/linear/linear_internal.h>

namespace ct {

using product::Missing;
using product::Stack;

void linear_forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Missing missing = linear_rows(f.in(0).dim());
  Tensor x_holder;
  Stack x(f.in(0), missing), y(f.out(), missing);
  product::fold_rows(x, x_holder);
  y.fold();
  const Stack w(f.in(1), Missing::none);
  const Gemm shape{y.rows, y.cols, x.cols, x.row, x.col, w.col, w.row, y.row};
  visit_floating("linear", f.out().dtype(), [&]<class T>(TypeTag<T>) {
    gemm_bias_cpu<T>(shape, f.in(0).numel() ? static_cast<const T*>(x.tensor->raw_data()) : nullptr,
                     static_cast<const T*>(f.in(1).raw_data()),
                     f.has(2) ? static_cast<const T*>(f.in(2).raw_data()) : nullptr,
                     static_cast<T*>(f.out().raw_data()));
  });
}

void linear_backward_cpu(const Backward& b) { linear_backward(b, product::cpu_backend); }

}  // namespace ct

CT_KERNELS(cpu, linear, {"linear", linear_forward_cpu, linear_backward_cpu})
