#include <cotangent/ops/linear/linear_kernels.h>
#include <cotangent/ops/matmul/gemm_cpu.h>
#include <cotangent/ops/matmul/product_internal.h>
#include <cotangent/ops/sum_to.h>

namespace ct {

using product::Missing;
using product::Stack;

namespace {
Missing rows_of(int rank) { return rank == 1 ? Missing::rows : Missing::none; }
}  // namespace

void linear_forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Missing missing = rows_of(f.in(0).dim());
  Tensor x_holder;
  Stack x(f.in(0), missing), y(f.out(), missing);
  product::fold_rows(x, x_holder);
  y.fold();
  const Stack w(f.in(1), Missing::none);
  const Tensor bias = f.has(2) ? product::packed(f.in(2)) : Tensor{};
  const Gemm shape{y.rows, y.cols, x.cols, x.row, x.col, w.col, w.row, y.row};
  visit_floating("linear", f.out().dtype(), [&]<class T>(TypeTag<T>) {
    gemm_bias_cpu<T>(shape, f.in(0).numel() ? static_cast<const T*>(x.tensor->raw_data()) : nullptr,
                     static_cast<const T*>(f.in(1).raw_data()),
                     bias.defined() ? static_cast<const T*>(bias.raw_data()) : nullptr,
                     static_cast<T*>(f.out().raw_data()));
  });
}

// dL/dx = g W, dL/dW = g' x, dL/db = sum of the rows of g, with all leading axes taken as rows.
void linear_backward_cpu(const Backward& b) {
  const Missing missing = rows_of(b.in_meta(0).shape.size());
  Tensor g_holder;
  Stack g(b.grad(), missing);
  product::fold_rows(g, g_holder);
  if (b.needs(0)) {
    Stack dx(b.grad_in(0), missing);
    dx.fold();
    product::multiply(g, Stack(b.in(1), Missing::none), dx, b.accumulate(0), product::cpu_backend);
  }
  if (b.needs(1)) {
    Tensor x_holder;
    Stack x(b.in(0), missing);
    product::fold_rows(x, x_holder);
    product::multiply(g.t(), x, Stack(b.grad_in(1), Missing::none), b.accumulate(1), product::cpu_backend);
  }
  if (b.needs(2)) sum_to_into(b.grad_in(2), b.grad(), b.accumulate(2));
}

}  // namespace ct
