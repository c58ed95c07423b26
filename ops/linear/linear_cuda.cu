#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/gemm/gemm_cuda.h>
#include <cotangent/ops/engine/gemm/replace.h>
#include <cotangent/ops/linear/linear_internal.h>

namespace ct {

using product::Missing;
using product::Product;
using product::Stack;

namespace {

// Writes the bias into every row of y, so that the product can be added to it.
template <class T>
__global__ void __launch_bounds__(256) bias_kernel(const T* bias, T* y, long long n, long long total) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long e = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; e < total; e += step)
    y[e] = bias[e % n];
}

void write_bias(const Tensor& bias, const Tensor& y) {
  visit_floating("linear", y.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch("linear", bias_kernel<T>, gpu::grid_stride_blocks(y.numel(), 256), 256, 0,
                static_cast<const T*>(bias.raw_data()), static_cast<T*>(y.raw_data()), bias.numel(),
                y.numel());
  });
}

void linear_forward_cuda(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Missing missing = linear_rows(f.in(0).dim());
  Tensor x_holder, plain_x, plain_w;
  Stack x(f.in(0), missing), w = Stack(f.in(1), Missing::none).t(), y(f.out(), missing);
  product::fold_rows(x, x_holder);
  y.fold();
  product::make_plain(x, plain_x);
  product::make_plain(w, plain_w);
  Product p = product::product_of(x, w, y, false);
  if (f.has(2)) {
    const Tensor& bias = f.in(2);
    if (product::replacement(DeviceType::cuda) == nullptr &&
        gpu::gemm("linear", p, gpu::Epilogue::bias, bias.raw_data()))
      return;
    // No such epilogue for this product (f64, k = 0, a bias that starts at an odd address, a replacement).
    write_bias(bias, f.out());
    p.accumulate = true;
  }
  if (!product::replaced(p, DeviceType::cuda)) gpu::gemm("linear", p);
}

// cuBLASLt would return the bias's gradient along with the weight's, but reads g a second time for it, and
// slower than sum_to does.
void linear_backward_cuda(const Backward& b) { linear_backward(b, product::cuda_backend); }

}  // namespace
}  // namespace ct

CT_KERNELS(cuda, linear, {"linear", linear_forward_cuda, linear_backward_cuda})
