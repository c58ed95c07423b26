#include <cotangent/core/cuda/launch.h>
#include <cotangent/ops/engine/gemm/gemm_cuda.h>
#include <cotangent/ops/engine/gemm/replace.h>
#include <cotangent/ops/engine/walk/copy.h>
#include <cotangent/ops/linear/linear_internal.h>
#include <cotangent/ops/engine/map/map_cuda.cuh>

namespace ct {

using gemm::Missing;
using gemm::Product;
using gemm::Stack;

namespace {

struct Formulas : map::Table<void, map::Row<Rectified>, map::Row<Passed>> {};

// Writes the bias into every row of y, so that the product can be added to it.
template <class T>
__global__ void __launch_bounds__(256) bias_kernel(const T* bias, T* y, long long n, long long total) {
  gpu::wait_for_previous();
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long e = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; e < total; e += step)
    y[e] = bias[e % n];
}

// The cotangent of x w^T + b from that of y = max(x w^T + b, 0), and its sums over the rows: a block has kCols columns.
constexpr int kCols = 16, kRowLanes = 64;
__global__ void __launch_bounds__(kCols* kRowLanes)
    gated_sums_kernel(const float* g, const float* y, float* out, int rows, int cols, float* sums, bool add) {
  gpu::wait_for_previous();
  __shared__ float partial[kRowLanes][kCols];
  const int col = static_cast<int>(blockIdx.x) * kCols + static_cast<int>(threadIdx.x);
  const int lane = static_cast<int>(threadIdx.y);
  float sum = 0;
  if (col < cols) {
#pragma unroll 8
    for (int row = lane; row < rows; row += kRowLanes) {
      const long long at = static_cast<long long>(row) * cols + col;
      const float passed = y[at] <= 0 ? 0.f : g[at];
      out[at] = passed;
      sum += passed;
    }
  }
  partial[lane][threadIdx.x] = sum;
  __syncthreads();
  if (lane != 0 || col >= cols) return;
  sum = 0;
#pragma unroll
  for (int i = 0; i < kRowLanes; ++i) sum += partial[i][threadIdx.x];
  sums[col] = add ? sums[col] + sum : sum;
}

void write_bias(const Tensor& bias, const Tensor& y) {
  visit_floating("linear", y.dtype(), [&]<class T>(TypeTag<T>) {
    gpu::launch_waiting("linear", bias_kernel<T>, gpu::grid_stride_blocks(y.numel(), 256), 256, 0,
                        static_cast<const T*>(bias.raw_data()), static_cast<T*>(y.raw_data()), bias.numel(),
                        y.numel());
  });
}

// Rows, and columns, up to which one kernel for the gate and the sums is quicker than one for each.
constexpr std::int64_t kMostSummedRows = 8192;

// Data of a tensor in f32, or null.
float* f32_or_null(const Tensor& t) { return t.defined() ? static_cast<float*>(t.raw_data()) : nullptr; }

// True if nothing is left to do behind the product: a bias, or max(y, 0).
// y = x w^T + b, or max(x w^T + b, 0).
template <bool kRelu>
void forward_cuda(const Forward& f) {
  if (f.out().numel() == 0) return;
  const Missing missing = linear_rows(f.in(0).dim());
  Tensor x_holder, plain_x, plain_w;
  Stack x(f.in(0), missing), w = Stack(f.in(1), Missing::none).t(), y(f.out(), missing);
  gemm::fold_rows(x, x_holder);
  y.fold();
  const Tensor& bias = f.in(2);
  const gemm::LayerProduct layer{
      .product = gemm::product_of(x, w, y, false), .bias = f32_or_null(bias), .relu = kRelu};
  if (gemm::gemm_layer(f.op.name, {&layer, 1})) return;
  gemm::make_plain(x, plain_x);
  gemm::make_plain(w, plain_w);
  Product p = gemm::product_of(x, w, y, false);
  // With max(y, 0) as an epilogue, too, some kernels of 16 bits make 0 of a NaN.
  const bool relu = kRelu && p.dtype == DType::f32;
  const bool done =
      f.has(2) && gemm::replacement(DeviceType::cuda) == nullptr &&
      gemm::gemm(f.op.name, p, relu ? gemm::Epilogue::relu_bias : gemm::Epilogue::bias, bias.raw_data());
  if (!done) {
    // No such epilogue for this product (f64, k = 0, a bias that starts at an odd address, a replacement).
    if (f.has(2)) write_bias(bias, f.out());
    p.accumulate = f.has(2);
    if (!gemm::replaced(p, DeviceType::cuda)) gemm::gemm(f.op.name, p);
  }
  if (kRelu && !(done && relu)) {
    const Tensor* const in_place[] = {&f.out()};
    map::run_cuda(f.op.name, map::gradient_kernels<Rectified, Formulas>(), f.out(), in_place, {});
  }
}

// The gradients of weight and bias, db as the sums of rows of g^T, and, with `dx`, that of x in one launch. `gate` is y of a
// linear_relu, or undefined. False where that can't be, or is not the fastest.
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
void linear_backward_cuda(const Backward& b) {
  if (!layer_backward(b, true, {})) backward_apart(b);
}
void linear_relu_backward_cuda(const Backward& b) {
  if (layer_backward(b, true, b.out())) return;
  const std::int64_t cols = b.grad().shape().back(), rows = cols > 0 ? b.grad().numel() / cols : 0;
  const bool sums = b.needs(2) && b.grad().dtype() == DType::f32 && b.grad().is_contiguous() && rows > 0 &&
                    rows <= kMostSummedRows && cols <= kMostSummedRows;
  const std::uint8_t flags[] = {b.flags[0], b.flags[1], sums ? std::uint8_t{0} : b.flags[2]};
  const auto pass = [&](Tensor& out, std::span<const Tensor* const> inputs) {
    if (!sums) return map::run_cuda(b.op.name, map::gradient_kernels<Passed, Formulas>(), out, inputs, {});
    gpu::launch_waiting(b.op.name, gated_sums_kernel, gpu::blocks_for(b.op.name, cols, kCols),
                        dim3(kCols, kRowLanes), 0, f32_or_null(*inputs[0]), f32_or_null(*inputs[1]),
                        f32_or_null(out), static_cast<int>(rows), static_cast<int>(cols),
                        f32_or_null(b.grad_in(2)), b.accumulate(2));
  };
  through_relu(b, pass, [&](const Backward& through) {
    Backward rest = through;
    rest.flags = flags;
    backward_apart(rest);
  });
}

}  // namespace
}  // namespace ct

CT_KERNELS(cuda, linear, {"linear", forward_cuda<false>, linear_backward_cuda},
           {"linear_relu", forward_cuda<true>, linear_relu_backward_cuda})
