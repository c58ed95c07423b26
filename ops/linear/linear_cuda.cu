#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/gemm/replace.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/linear/linear_cuda.h>
#include <cotangent/ops/linear/linear_internal.h>

namespace ct::linear_impl {

using gemm::Missing;
using gemm::Product;
using gemm::Stack;

namespace {

// Writes the bias into every row of y, so that the product can be added to it.
template <class T>
__global__ void __launch_bounds__(256) bias_kernel(const T* bias, T* y, long long n, long long total) {
  gpu::wait_for_previous();
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long e = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; e < total; e += step)
    y[e] = bias[e % n];
}

void write_bias(const Tensor& bias, const Tensor& y) {
  visit_floating("linear", y.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch_waiting("linear", bias_kernel<T>, gpu::grid_stride_blocks(y.numel(), 256), 256, 0,
                        static_cast<const T*>(bias.raw_data()), static_cast<T*>(y.raw_data()), bias.numel(),
                        y.numel());
  });
}

}  // namespace

bool forward_cuda(const Forward& f, bool relu) {
  const Missing missing = linear_rows(f.in(0).dim());
  Tensor x_holder, plain_x, plain_w;
  Stack x(f.in(0), missing), w = Stack(f.in(1), Missing::none).t(), y(f.out(), missing);
  gemm::fold_rows(x, x_holder);
  y.fold();
  const Tensor& bias = f.in(2);
  const gemm::LayerProduct layer{
      .product = gemm::product_of(x, w, y, false), .bias = f32_or_null(bias), .relu = relu};
  if (gemm::gemm_layer(f.op.name, {&layer, 1})) return true;
  gemm::make_plain(x, plain_x);
  gemm::make_plain(w, plain_w);
  Product p = gemm::product_of(x, w, y, false);
  // With max(y, 0) as an epilogue, too, some kernels of 16 bits make 0 of a NaN.
  relu = relu && p.dtype == DType::f32;
  const bool done =
      f.has(2) && gemm::replacement(DeviceType::cuda) == nullptr &&
      gemm::gemm(f.op.name, p, relu ? gemm::Epilogue::relu_bias : gemm::Epilogue::bias, bias.raw_data());
  if (!done) {
    // No such epilogue for this product (f64, k = 0, a bias that starts at an odd address, a replacement).
    if (f.has(2)) write_bias(bias, f.out());
    p.accumulate = f.has(2);
    if (!gemm::replaced(p, DeviceType::cuda)) gemm::gemm(f.op.name, p);
  }
  return done && relu;
}

bool layer_backward(const Backward& b, bool dx, const Tensor& gate) {
  if (b.grad().dtype() != DType::f32 || b.grad().numel() == 0 || (b.needs(2) && !b.needs(1))) return false;
  const Missing missing = linear_rows(b.in_meta(0).shape.size());
  const Tensor g_holder = contiguous(b.grad());
  Tensor x_holder;
  Stack g(g_holder, missing);
  g.fold();
  gemm::LayerProduct products[2];
  std::size_t count = 0;
  if (dx && b.needs(0)) {
    Stack to(b.grad_in(0), missing);
    to.fold();
    products[count++] = {.product = gemm::product_of(g, Stack(b.in(1), Missing::none), to, b.accumulate(0)),
                         .gate = f32_or_null(gate)};
  }
  if (b.needs(1)) {
    Stack x(b.in(0), missing);
    gemm::fold_rows(x, x_holder);
    products[count++] = {
        .product = gemm::product_of(g.t(), x, Stack(b.grad_in(1), Missing::none), b.accumulate(1)),
        .gate = f32_or_null(gate),
        .row_sums = b.needs(2) ? f32_or_null(b.grad_in(2)) : nullptr,
        .add_row_sums = b.accumulate(2)};
  }
  return gemm::gemm_layer(b.op.name, {products, count});
}

// cuBLASLt would return the bias's gradient along with the weight's, but reads g a second time for it, and
// slower than sum_to does.
void backward_apart(const Backward& b) {
  Backward rest = b;
  const std::uint8_t flags[] = {b.flags[0], 0, 0};
  if (b.needs(1) && layer_backward(b, false, {})) rest.flags = flags;
  linear_backward(rest, gemm::cuda_backend);
}

namespace {
void plain_forward_cuda(const Forward& f) {
  if (f.out().numel() > 0) forward_cuda(f, false);
}
void backward_cuda(const Backward& b) {
  if (!layer_backward(b, true, {})) backward_apart(b);
}
}  // namespace
}  // namespace ct::linear_impl

CT_KERNELS(cuda, linear, {"linear", ct::linear_impl::plain_forward_cuda, ct::linear_impl::backward_cuda})
