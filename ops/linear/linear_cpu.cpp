#include <cstring>

#include <cotangent/ops/engine/gemm/gemm_cpu.h>
#include <cotangent/ops/engine/gemm/product.h>
#include <cotangent/ops/engine/gemm/replace.h>
#include <cotangent/ops/linear/linear_cpu.h>
#include <cotangent/ops/linear/linear_internal.h>

namespace ct::linear_impl {

using gemm::Missing;
using gemm::Stack;

void forward_cpu(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Missing missing = linear_rows(f.in(0).dim());
  Tensor x_holder;
  Stack x(f.in(0), missing), y(f.out(), missing);
  gemm::fold_rows(x, x_holder);
  y.fold();
  const Stack w(f.in(1), Missing::none);
  if (gemm::replacement(DeviceType::cpu) != nullptr) {  // it knows no bias: that is there first
    const std::size_t bytes = static_cast<std::size_t>(y.cols) * size_of(f.out().dtype());
    for (std::int64_t i = 0; f.has(2) && i < y.rows; ++i)
      std::memcpy(static_cast<char*>(f.out().raw_data()) + static_cast<std::size_t>(i) * bytes,
                  f.in(2).raw_data(), bytes);
    return gemm::cpu_backend.run(gemm::product_of(x, w.t(), y, f.has(2)));
  }
  const Gemm shape{y.rows, y.cols, x.cols, x.row, x.col, w.col, w.row, y.row};
  visit_floating("linear", f.out().dtype(), [&]<class T>(TypeTag<T>) {
    gemm_bias_cpu<T>(shape, f.in(0).numel() ? static_cast<const T*>(x.tensor->raw_data()) : nullptr,
                     static_cast<const T*>(f.in(1).raw_data()),
                     f.has(2) ? static_cast<const T*>(f.in(2).raw_data()) : nullptr,
                     static_cast<T*>(f.out().raw_data()));
  });
}

void backward_cpu(const Backward& b) { linear_backward(b, gemm::cpu_backend); }

}  // namespace ct::linear_impl

CT_KERNELS(cpu, linear, {"linear", ct::linear_impl::forward_cpu, ct::linear_impl::backward_cpu})
